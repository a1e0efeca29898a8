"""How a report looks, beyond what all pages share: on a screen, light or dark, and printed."""

from .draw import AGAINST, FOR

STYLE = (
    f":root {{ --for: {FOR}; --against: {AGAINST}; }}"
    + """
nav ul { list-style: none; padding: 0; max-width: none; display: flex; flex-wrap: wrap;
  gap: .2em 1.2em; }
h2, h3, [id] { scroll-margin-top: 1rem; }
pre { background: var(--soft); padding: .7em .9em; overflow-x: auto; white-space: pre-wrap;
  overflow-wrap: anywhere; }
pre code { white-space: inherit; background: none; padding: 0; }
h2 + .table table, h3 + .table table, h2 + .scroll table, h3 + .scroll table { margin-top: 0; }
dl.facts { display: grid; grid-template-columns: repeat(auto-fit, minmax(13rem, 1fr)); gap: 1rem;
  margin: 1.5em 0; }
dl.facts > div { border: 1px solid var(--line); border-radius: .5rem; padding: .8rem 1rem; }
dl.facts dt { font-size: .9em; opacity: .8; }
dl.facts dd { margin: 0; font-variant-numeric: tabular-nums; overflow-wrap: anywhere; }
dl.facts dd:first-of-type { font-size: 1.5em; font-weight: 600; line-height: 1.3; }
dl.facts dd + dd { font-size: .85em; opacity: .8; }
.bar { display: block; width: 12rem; max-width: 22vw; height: .8em; margin-top: .35em;
  background: var(--soft); }
.bar i { display: block; height: 100%; background: var(--for); }
.words { max-width: 24rem; }
tbody th { overflow-wrap: anywhere; min-width: 8rem; max-width: 24rem; }
.scroll { max-height: 41.2rem; overflow: auto; }
.scroll .table { overflow: visible; }
.scroll thead th { position: sticky; top: 0; background: Canvas; }
.key { display: inline-block; width: .8em; height: .8em; margin-right: .3em; }
table.confusion { table-layout: fixed; font-size: .85em; }
table.confusion th, table.confusion td { padding: .25em .1em; text-align: center;
  vertical-align: middle; border: 1px solid var(--line); width: 2.9em; min-width: 2.6em; }
table.confusion.roomy td { width: 5em; padding: .4em .1em; }
table.confusion small { display: block; }
table.confusion thead td { border: 0; }
table.confusion thead th { vertical-align: bottom; }
table.confusion thead th span { writing-mode: vertical-rl; transform: rotate(180deg);
  max-height: 10em; }
table.confusion span { display: inline-block; overflow: hidden; text-overflow: ellipsis;
  white-space: nowrap; max-width: 11em; vertical-align: bottom; }
table.confusion tbody th, table.confusion thead td { width: 11em; text-align: right;
  padding-right: .5em; }
table.confusion tbody th { position: sticky; left: 0; background: Canvas; }
table.confusion tr:hover th { text-decoration: underline; }
svg.heat { width: 100%; display: block; font: 8px system-ui, sans-serif; }
svg.heat text { fill: currentColor; }
svg.heat .band { fill: transparent; }
svg.heat .row:hover .band { fill: var(--line); }
svg.heat .row:hover text { font-weight: 700; }
svg.heat .row rect:hover { stroke: currentColor; }
svg.heat path { stroke: var(--line); fill: none; pointer-events: none; }
.mistakes { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(30rem, 100%), 1fr));
  gap: 1rem; }
.mistake { margin: 0; border: 1px solid var(--line); border-radius: .5rem; padding: .6rem .8rem;
  overflow-wrap: anywhere; }
.mistake p { margin: 0 0 .4em; }
.three { display: grid; grid-template-columns: repeat(3, 1fr); gap: .5rem; }
.three img { display: block; width: 100%; padding: 0; height: 9rem; object-fit: contain;
  background: var(--soft); }
.three small { opacity: 1; line-height: 1.25; display: block; margin-top: .2em; }
.mistake figcaption { font-size: .75em; margin-top: .3em; }
/* A shadow at each side where more can be scrolled to; it is covered at the end. */
.table { background: linear-gradient(to right, Canvas 50%, transparent) left / 3rem 100% local,
  linear-gradient(to left, Canvas 50%, transparent) right / 3rem 100% local,
  linear-gradient(to right, var(--line), transparent) left / .8rem calc(100% - 2px),
  linear-gradient(to left, var(--line), transparent) right / .8rem calc(100% - 2px);
  background-repeat: no-repeat; }
details { border-top: 1px solid var(--line); }
summary { cursor: pointer; padding: .7em 0; font-size: 1.15em; font-weight: 600; }
.words small { overflow-wrap: anywhere; }
@media (max-width: 40rem) { .three img { height: 6rem; } h1 { font-size: 1.6em; } }
@media screen and (max-width: 48rem) {
  .bar { max-width: 7vw; }
  .table > table:not(.confusion) { font-size: .92em; }
  .table > table:not(.confusion) :is(th, td) { padding-right: .6em; }
}
@media screen and (max-width: 30rem) {
  .spare { display: none; }
  .table > table:not(.confusion) { font-size: .85em; }
  tbody th { min-width: min(7.5rem, 27vw); }
  .words { min-width: min(7rem, 24vw); }
}
@media print {
  :root { color-scheme: light; }
  body { font-size: 10pt; }
  * { print-color-adjust: exact; -webkit-print-color-adjust: exact; }
  nav { display: none; }
  summary { list-style: none; break-after: avoid; }
  details::details-content { content-visibility: visible; display: block; block-size: auto; }
  .table { background: none; }
  .scroll { max-height: none; overflow: visible; }
  .scroll thead th, table.confusion tbody th { position: static; }
  table { break-inside: auto; }
  tr, .mistake, .keep, dl.facts > div { break-inside: avoid; }
  h3 { break-after: avoid; }
  p { break-inside: avoid; }
  dl.facts dd:first-of-type { font-size: 1.2em; }
  svg.heat { min-width: 0 !important; max-height: 220mm; }
  table.confusion { font-size: 7pt; }
  .mistakes { grid-template-columns: 1fr 1fr; }
  .three img { height: 24mm; }
  dl.facts { grid-template-columns: repeat(4, 1fr); gap: .5rem; }
}
"""
)
