#include "converter/report/html_sections.h"

namespace needle::report {

const char kReportStyle[] = R"css(
:root{color-scheme:light dark;--page:#fbfbfa;--card:#fff;--text:#1c1f23;--soft:#565d66;--rule:#d9dce0;
--bar:#2563a8;--mark:#b4460f;--good:#12693a;--bad:#b3261e;--shade:180,70,15;--hit:#fde9b8}
@media (prefers-color-scheme:dark){:root{--page:#14171a;--card:#1d2125;--text:#e8eaed;--soft:#a9b1ba;
--rule:#3a4047;--bar:#74aef2;--mark:#ffa366;--good:#6fd39b;--bad:#ff9b92;--shade:255,150,80;--hit:#5a4410}}
*{box-sizing:border-box}
body{margin:0;background:var(--page);color:var(--text);
font:16px/1.5 system-ui,-apple-system,"Segoe UI",Roboto,sans-serif}
main{max-width:64rem;margin:0 auto;padding:1rem}
h1{font-size:1.5rem;line-height:1.25;margin:.5rem 0;overflow-wrap:anywhere}
h2{font-size:1.2rem;margin:0 0 .5rem}
h3{font-size:1rem;margin:1rem 0 .25rem}
p{margin:.4rem 0 .8rem;max-width:46rem}
section{background:var(--card);border:1px solid var(--rule);border-radius:.6rem;padding:1rem;margin:1rem 0}
.soft,figcaption,caption{color:var(--soft)}
.bad{color:var(--bad)}.good{color:var(--good)}
code,pre{font:.85rem/1.45 ui-monospace,"SF Mono",Menlo,Consolas,monospace;overflow-wrap:anywhere}
pre{white-space:pre-wrap;margin:.15rem 0 .6rem;padding:.5rem .6rem;border:1px solid var(--rule);
border-radius:.35rem;background:var(--page)}
mark{background:var(--hit);color:inherit;border-radius:.2rem}
.tiles{display:grid;grid-template-columns:repeat(auto-fit,minmax(8.5rem,1fr));gap:.6rem;margin:.6rem 0;padding:0}
.tiles div{background:var(--card);border:1px solid var(--rule);border-radius:.5rem;padding:.5rem .7rem}
.tiles dt{color:var(--soft);font-size:.8rem}.tiles dd{margin:0;font-size:1.15rem;font-weight:600}
.facts{display:grid;grid-template-columns:max-content 1fr;gap:.2rem .8rem;margin:.6rem 0;font-size:.92rem}
.facts dt{color:var(--soft)}.facts dd{margin:0;min-width:0;overflow-wrap:anywhere}
.scroll{overflow-x:auto;max-width:100%;margin:.5rem 0}
.scroll:focus-visible,summary:focus-visible{outline:2px solid var(--bar);outline-offset:2px}
table{border-collapse:collapse;font-size:.87rem;font-variant-numeric:tabular-nums}
caption{text-align:left;padding:.2rem 0 .4rem}
caption span{position:sticky;left:0;display:inline-block;max-width:calc(100vw - 4.5rem)}
th,td{padding:.28rem .6rem;border-top:1px solid var(--rule);text-align:left;white-space:nowrap}
thead th{border-top:0;color:var(--soft);font-weight:600}
tbody th{font-weight:500}
th.num,td.num{text-align:right}
.charts{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,22rem),1fr));gap:1rem}
figure{margin:.5rem 0;min-width:0;max-width:40rem}
figcaption{font-size:.85rem}figcaption b{color:var(--text)}
svg{display:block;width:100%;height:auto}
svg text{font-size:11px;fill:var(--soft)}
.bar{fill:var(--bar)}.grid{stroke:var(--rule);stroke-width:1}
.mark{stroke:var(--mark);stroke-width:2}
.meter{display:inline-block;width:7rem;height:.7rem;border-radius:.2rem;background:var(--rule);vertical-align:middle}
.meter i{display:block;height:100%;border-radius:.2rem;background:var(--bar)}
summary{cursor:pointer;padding:.3rem 0;color:var(--bar)}
article{border-top:1px solid var(--rule);padding:.8rem 0}article:first-of-type{border-top:0}
article h3{margin:0 0 .4rem;overflow-wrap:anywhere}
.label{color:var(--soft);font-size:.82rem}
@media (max-width:30rem){th,td{padding:.28rem .35rem}tbody th{white-space:normal}}
@media print{body{background:#fff}section{break-inside:avoid}}
)css";

}  // namespace needle::report
