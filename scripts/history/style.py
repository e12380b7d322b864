"""The history page's style sheet: light and dark, from a phone to a desk."""

CSS = """
:root { color-scheme: light dark; --page: #ffffff; --ink: #1c2128; --soft: #57606a; --line: #d4d9df; --card: #f5f7f9;
  --link: #0b5fc4; --kept: #0a6b43; --dropped: #b3202a; --open: #7a5b00; }
@media (prefers-color-scheme: dark) {
  :root { --page: #0f1318; --ink: #e4e8ed; --soft: #a3adb8; --line: #323a44; --card: #191f26; --link: #7db4ff;
    --kept: #4cc38a; --dropped: #ff8a8f; --open: #e0b84c; }
}
* { box-sizing: border-box; }
html { -webkit-text-size-adjust: 100%; }
body { margin: 0 auto; max-width: 78rem; padding: 1rem; background: var(--page); color: var(--ink);
  font: 1rem/1.5 system-ui, -apple-system, "Segoe UI", Roboto, "DejaVu Sans", sans-serif; }
h1 { font-size: 1.6rem; line-height: 1.2; margin: .5rem 0; }
h2 { font-size: 1.25rem; margin: 2.2rem 0 .5rem; }
h3, h4, h5 { font-size: 1rem; margin: 1.2rem 0 .3rem; }
p, li { max-width: 46rem; overflow-wrap: anywhere; }
a { color: var(--link); }
.soft, figcaption { color: var(--soft); font-size: .875rem; }
nav { display: flex; flex-wrap: wrap; gap: .3rem 1rem; margin: .8rem 0; }
.tiles { display: grid; grid-template-columns: repeat(auto-fit, minmax(9rem, 1fr)); gap: .7rem; padding: 0; }
.tile { background: var(--card); border: 1px solid var(--line); border-radius: .5rem; padding: .6rem .8rem; }
.tile b { display: block; font-size: 1.4rem; line-height: 1.3; }
.plots { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 17rem), 1fr)); gap: .7rem; }
figure { margin: .6rem 0; }
figure svg { display: block; width: 100%; height: auto; }
figure svg * { stroke-linejoin: round; stroke-linecap: butt; }
.one svg { max-width: 38rem; }
.scroll { overflow-x: auto; margin: .6rem 0; -webkit-overflow-scrolling: touch; }
table { border-collapse: collapse; width: 100%; font-size: .875rem; font-variant-numeric: tabular-nums; }
th, td { text-align: left; vertical-align: top; padding: .35rem .6rem; border-bottom: 1px solid var(--line); }
td div { overflow-wrap: break-word; }
.kept { color: var(--kept); } .dropped { color: var(--dropped); } .open { color: var(--open); }
.kept, .dropped, .open { font-weight: 600; }
@media (max-width: 60rem) { /* a row is a card: nothing is cut, nothing scrolls sideways */
  table, tbody, tr, td { display: block; }
  thead { display: none; }
  tr { border: 1px solid var(--line); border-radius: .5rem; margin: .6rem 0; padding: .2rem .6rem; }
  tbody td { display: grid; grid-template-columns: minmax(5rem, 30%) 1fr; gap: .6rem; border: 0; padding: .15rem 0; }
  tbody td.n { text-align: left; }
  td::before { content: attr(data-label); color: var(--soft); }
  td div { min-width: 0; overflow-wrap: anywhere; }
  td:not(:has(div > *)):has(div:empty) { display: none; }
}
th { background: var(--card); }
.n { text-align: right; }
code, pre { font-family: ui-monospace, "DejaVu Sans Mono", monospace; font-size: .875em; }
pre { background: var(--card); padding: .6rem; border-radius: .4rem; }
@media (max-width: 30rem) { pre { font-size: .6rem; padding: .3rem; } } /* 52 columns of a drawing */
.key { display: flex; flex-wrap: wrap; gap: .2rem 1.1rem; list-style: none; padding: 0; font-size: .875rem; }
.key svg { width: 1.9rem; height: .8rem; vertical-align: middle; margin-right: .35rem; }
details { border: 1px solid var(--line); border-radius: .5rem; margin: .5rem 0; padding: 0 .8rem; }
details > div { scroll-margin-top: 3.5rem; }
.short { display: block; font-weight: 400; color: var(--soft); font-size: .875rem; }
summary { cursor: pointer; padding: .55rem 0; font-weight: 600; }
"""
