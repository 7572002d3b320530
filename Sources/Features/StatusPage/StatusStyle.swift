import Traffic
import Forward

extension StatusHTML {
  /// The style sheet. Colours have a contrast of at least 4.5:1 on their background, in both schemes.
  static let style = """
    :root{color-scheme:light dark;--bg:#f6f7f9;--card:#fff;--line:#d9dde3;--text:#1a1f27;--soft:#566070;--bad:#b3261e;\
    --bad-bg:#fdecea;--warn:#7a4d00;--warn-bg:#fff4dc;--fine:#1b6b34;--fine-bg:#e6f5ea}
    @media (prefers-color-scheme:dark){:root{--bg:#12151a;--card:#1b2027;--line:#333b46;--text:#e6e9ee;--soft:#a3adba;\
    --bad:#ffb4ab;--bad-bg:#43191a;--warn:#ffd68a;--warn-bg:#3b2e10;--fine:#9be0ae;--fine-bg:#15321f}}
    *{box-sizing:border-box}
    body{margin:0;background:var(--bg);color:var(--text);font:15px/1.45 system-ui,sans-serif}
    main{max-width:1400px;margin:0 auto;padding:20px}
    header{display:flex;flex-wrap:wrap;gap:4px 16px;align-items:baseline}
    h1{font-size:22px;margin:0}h2{font-size:16px;margin:26px 0 8px}
    p{margin:0;color:var(--soft)}a{color:inherit}
    .fine,.problems{margin:16px 0;padding:0;list-style:none}
    .fine,.problems li{padding:10px 14px;border-radius:6px;border-left:4px solid;overflow-wrap:anywhere}
    .fine{color:var(--fine);background:var(--fine-bg)}
    .problems li{margin-bottom:6px}
    .error{color:var(--bad);background:var(--bad-bg)}.warning{color:var(--warn);background:var(--warn-bg)}
    .tiles{display:grid;grid-template-columns:repeat(auto-fit,minmax(130px,1fr));gap:10px;margin:16px 0}
    .tiles div,table{background:var(--card);border:1px solid var(--line);border-radius:6px}
    .tiles div{padding:10px 14px}dt{color:var(--soft);font-size:13px}
    dd{margin:0;font-size:20px;font-variant-numeric:tabular-nums}
    table{width:100%;border-collapse:separate;border-spacing:0;font-variant-numeric:tabular-nums}
    section{overflow-x:auto}
    table{font-size:14px}th,td{padding:7px 7px;text-align:left;overflow-wrap:anywhere}td:first-child:not(.n){min-width:11.5em}
    th:first-child,td:first-child{padding-left:12px}th:last-child,td:last-child{padding-right:12px}
    th{color:var(--soft);font-size:13px;font-weight:600;white-space:nowrap}
    td{border-top:1px solid var(--line)}.n{text-align:right;white-space:nowrap}
    td svg{width:80px;height:20px;display:inline-block;vertical-align:middle}
    polyline{fill:none;stroke:currentColor;stroke-width:1.5;vector-effect:non-scaling-stroke}
    .marked{color:var(--bad);background:var(--bad-bg);font-weight:600}
    .last{margin:16px 0;overflow-wrap:anywhere}code{font:13px/1.5 ui-monospace,monospace;color:var(--text)}
    .bad td{background:var(--bad-bg);color:var(--bad)}
    @media (max-width:1000px){main{padding:12px}
    th,td{padding:6px 10px}
    .cards thead{display:none}.cards,.cards tbody{display:block}
    .cards tr{display:flex;flex-wrap:wrap;padding:8px 0;border-top:1px solid var(--line)}
    .cards tr:first-child{border-top:0}
    .cards td{flex:1 1 100%;border:0;padding:2px 12px;display:flex;justify-content:space-between;gap:16px;\
    text-align:right;white-space:normal}.cards td.n{flex:1 1 50%}.cards td:first-child{font-weight:600}
    .cards td:empty{display:none}.cards svg{width:56px}
    .cards td::before{content:attr(data-n);color:var(--soft);text-align:left;white-space:nowrap;font-weight:400}
    .cards .bad td::before,.cards td.marked::before{color:inherit}}
    """
}
