// Waiting before something is tried again: longer each time, shorter as soon as the network is back.

const FIRST = 500;
const LONGEST = 15_000;

// How long to wait after `failures` in a row. `random` in [0, 1) spreads many pages over time.
export function delayAfter(failures, random = Math.random()) {
  const whole = Math.min(LONGEST, FIRST * 2 ** Math.max(0, failures - 1));
  return Math.round(whole * (0.75 + random / 2));
}

// Waits that long; ends early when the network comes back, somebody looks at the page again, or `signal` is set off.
export function pause(milliseconds, signal) {
  return new Promise((resolve) => {
    const over = () => {
      clearTimeout(timer);
      removeEventListener("online", over);
      document.removeEventListener("visibilitychange", looked);
      signal?.removeEventListener("abort", over);
      resolve();
    };
    const looked = () => document.visibilityState === "visible" && over();
    const timer = setTimeout(over, milliseconds);
    addEventListener("online", over);
    document.addEventListener("visibilitychange", looked);
    signal?.addEventListener("abort", over);
  });
}
