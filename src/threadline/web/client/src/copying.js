// Puts text on the clipboard. Without a secure context browsers offer only the old way.

export async function copyText(text) {
  if (navigator.clipboard) {
    await navigator.clipboard.writeText(text);
    return;
  }
  const field = document.createElement("textarea");
  field.value = text;
  field.className = "hidden";
  document.body.append(field);
  field.select();
  document.execCommand("copy");
  field.remove();
}

// Copies the code of a block whose button was pressed, and lets the button say so.
export async function copyCode(button) {
  const code = button.closest(".code")?.querySelector("code");
  if (!code) return;
  await copyText(code.textContent);
  button.textContent = "Copied";
  setTimeout(() => {
    button.textContent = "Copy";
  }, 1500);
}
