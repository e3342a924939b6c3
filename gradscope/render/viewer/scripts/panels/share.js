/** Take something along: the picture as a file, a link to this view, a command about the selection. */

import { Painter } from "../paint/paint.js";

/** @typedef {import("../core/app.js").App} App */

const SHARPNESS = 2;
const LONGEST_SIDE = 12_000;
const PICTURE_EDGE = 20;
const SAID_FOR = 2_500;

/** The buttons over the graph. */
export class Share {
  /** @param {import("../core/forward.js").Graphs} graphs @param {import("../paint/paint.js").Colours} colours @param {() => void} write writes what is shown into the address */
  constructor(graphs, colours, write) {
    this.graphs = graphs;
    this.colours = colours;
    this.said = /** @type {HTMLElement} */ (document.getElementById("said"));
    const on = (/** @type {string} */ id, /** @type {() => void} */ act) => /** @type {HTMLElement} */ (document.getElementById(id)).addEventListener("click", act);
    on("save-picture", () => this.savePicture());
    on("copy-link", () => {
      write();
      this.copy(location.href, "link copied");
    });
    on("copy-command", () => this.copy(this.command, `copied: ${this.command}`));
    /** @type {HTMLElement} */ (document.getElementById("copy-link")).hidden = location.protocol === "about:";
  }

  /** The command that draws or opens what is selected. */
  get command() {
    const { shown, main } = this.graphs;
    const { file } = main.model.facts;
    const { backwards } = main.model;
    const words = ["gradscope", "render", "-o", "picture.svg"];
    if (shown !== main) words.push("--graph", "forward");
    const step = main.backward >= 0 ? backwards.get("step")[main.backward] : -1;
    const around = shown.node >= 0 ? shown.model.title(shown.node) : shown.group >= 0 ? shown.model.groups.text("path", shown.group) : "";
    const numbered = shown.node >= 0 && !shown.model.nodes.text("leaf", shown.node);  // over all ranks
    if (main.rank >= 0 && !numbered) words.push("--rank", String(main.rank));
    if (around) words.push("--around", around);
    else if (step >= 0) words.push("--step", String(step));
    return [...words, file].map(quoted).join(" ");
  }

  /** @param {string} text @param {string} done */
  async copy(text, done) {
    try {
      await navigator.clipboard.writeText(text);
      this.say(done);
    } catch {
      this.say(`the browser does not allow copying; copy it here: ${text}`);
    }
  }

  /** @param {string} text */
  say(text) {
    this.said.textContent = text;
    this.said.hidden = false;
    clearTimeout(this.waiting);
    this.waiting = setTimeout(() => { this.said.hidden = true; }, SAID_FOR);
  }

  /** The whole picture as it is now, also what is not in view, as a PNG file. */
  savePicture() {
    const app = this.graphs.shown;
    const { picture } = app;
    const [width, height] = [picture.width + 2 * PICTURE_EDGE, picture.height + 2 * PICTURE_EDGE];
    const k = Math.min(1, LONGEST_SIDE / (SHARPNESS * Math.max(width, height)));
    const canvas = document.createElement("canvas");
    canvas.width = Math.round(width * k * SHARPNESS);
    canvas.height = Math.round(height * k * SHARPNESS);
    const context = /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d"));
    new Painter(context, app, this.colours).paint({ x: PICTURE_EDGE * k, y: PICTURE_EDGE * k, k, width: width * k, height: height * k }, "", SHARPNESS);
    canvas.toBlob((blob) => {
      if (!blob) {
        this.say("the picture is too large for this browser; use gradscope render");
        return;
      }
      const away = document.createElement("a");
      away.href = URL.createObjectURL(blob);
      away.download = `${app.model.facts.script.replace(/\W+/g, "_")}.png`;
      away.click();
      setTimeout(() => URL.revokeObjectURL(away.href), SAID_FOR);
      this.say(`saved ${away.download}`);
    }, "image/png");
  }
}

/** A word as a shell reads it. @param {string} word */
function quoted(word) {
  return /^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replace(/'/g, "'\\''")}'`;
}
