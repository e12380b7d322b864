"""The history's style sheet: light and dark, from a phone to a desk."""

CSS = """
:root { color-scheme: light dark; --page: #ffffff; --ink: #1c2128; --line: #d4d9df; --card: #f5f7f9; --link: #0b5fc4; }
@media (prefers-color-scheme: dark) {
  :root { --page: #0f1318; --ink: #e4e8ed; --line: #323a44; --card: #191f26; --link: #7db4ff; }
}
body { margin: 0 auto; max-width: 62rem; padding: 1rem; background: var(--page); color: var(--ink);
  font: 1rem/1.5 system-ui, -apple-system, "Segoe UI", Roboto, "DejaVu Sans", sans-serif; overflow-wrap: anywhere; }
a { color: var(--link); }
nav { display: flex; flex-wrap: wrap; gap: .3rem 1rem; margin: .8rem 0; }
figure { margin: .6rem 0; }
figure svg { display: block; width: 100%; max-width: 50rem; height: auto; }
figure svg * { stroke-linejoin: round; stroke-linecap: butt; }
.one svg { max-width: 38rem; }
table { display: block; overflow-x: auto; border-collapse: collapse; font-size: .875rem; overflow-wrap: normal; }
th, td { text-align: left; vertical-align: top; padding: .35rem .6rem; border-bottom: 1px solid var(--line); }
th, pre { background: var(--card); }
code, pre { font-family: ui-monospace, "DejaVu Sans Mono", monospace; font-size: .875em; }
pre { overflow-x: auto; padding: .6rem; }
@media (max-width: 30rem) { pre { font-size: .6rem; padding: .3rem; } } /* 52 columns of a drawing */
details { border: 1px solid var(--line); border-radius: .5rem; margin: .5rem 0; padding: 0 .8rem; }
summary { cursor: pointer; padding: .55rem 0; font-weight: 600; }
"""
