// Markup in the script itself. Values are always text, never HTML.

import { Component, h } from "preact";
import htm from "htm";

export const html = htm.bind(h);

// The same view, drawn again only when one of its values is another one.
export function memo(View) {
  return class extends Component {
    shouldComponentUpdate(next) {
      const names = new Set([...Object.keys(next), ...Object.keys(this.props)]);
      for (const name of names) if (next[name] !== this.props[name]) return true;
      return false;
    }

    render(props) {
      return h(View, props);
    }
  };
}
