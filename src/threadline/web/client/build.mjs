// Builds the page into the folder that is named on the command line. The same sources always give the same bytes.

import { createHash } from "node:crypto";
import { copyFile, mkdir, readFile, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";
import { minify } from "terser";

const here = dirname(fileURLToPath(import.meta.url));
const BUNDLED = ["preact", "htm", "marked", "dompurify"];

// Markup in templates is indented for its readers; a browser needs none of that.
const unindented = {
  name: "unindented",
  setup({ onLoad }) {
    onLoad({ filter: /src.view.*\.js$/ }, async ({ path }) => ({
      contents: (await readFile(path, "utf8")).replace(/\n +/g, "\n"),
    }));
  },
};

async function bundle(entry) {
  const made = await build({
    absWorkingDir: here,
    entryPoints: [entry],
    bundle: true,
    minify: true,
    write: false,
    plugins: [unindented],
    format: "iife",
    target: ["chrome123", "firefox128", "safari17.5"],
    charset: "utf8",
    legalComments: "none",
    logLevel: "warning",
  });
  return Buffer.from(made.outputFiles[0].contents);
}

// A second look saves another three percent, which is the room that the page has.
async function squeezed(script) {
  const options = { ecma: 2022, toplevel: true, compress: { passes: 3, unsafe_arrows: true }, format: { comments: false } };
  return Buffer.from((await minify(script.toString("utf8"), options)).code);
}

// An address that changes with the content: a browser never mixes an old script with a new page.
function stamped(page, name, content) {
  const mark = createHash("sha256").update(content).digest("hex").slice(0, 12);
  return page.replace(`/static/${name}"`, `/static/${name}?v=${mark}"`);
}

async function manifestOf(name) {
  return JSON.parse(await readFile(join(here, "node_modules", name, "package.json"), "utf8"));
}

// The licence of every library that is in app.js. Two of them are under the Apache licence; its text stands once.
async function licences() {
  const parts = ["The script of this page contains these libraries, each under its own licence.\n"];
  for (const name of BUNDLED) {
    const { version, homepage, license } = await manifestOf(name);
    const chosen = name === "dompurify" ? "Apache-2.0 (its authors offer MPL-2.0 too)" : license;
    parts.push(`${"=".repeat(78)}\n${name} ${version}, ${chosen}\n${homepage ?? ""}\n`);
    if (name === "dompurify") {
      parts.push("(c) Cure53 and other contributors. The text of the Apache licence stands under htm.\n");
    } else {
      parts.push((await readFile(join(here, "node_modules", name, "LICENSE"), "utf8")).trim() + "\n");
    }
  }
  return parts.join("\n");
}

const out = process.argv[2];
if (!out) throw new Error("Say where to build to: node build.mjs FOLDER");
await mkdir(out, { recursive: true });
const script = await squeezed(await bundle("src/main.js"));
const style = await bundle("css/style.css");
const page = await readFile(join(here, "index.html"), "utf8");
await writeFile(join(out, "app.js"), script);
await writeFile(join(out, "app.css"), style);
await writeFile(join(out, "index.html"), stamped(stamped(page, "app.js", script), "app.css", style));
await copyFile(join(here, "icon.svg"), join(out, "icon.svg"));
await writeFile(join(out, "THIRD_PARTY.txt"), await licences());
