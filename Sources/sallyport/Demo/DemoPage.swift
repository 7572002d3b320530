import Observability

/// Shows what the server saw, as a page. Every value is escaped, because anybody may choose the names in a certificate.
struct DemoPage {
  let text: String

  init(_ sight: ClientReport) {
    let banner =
      switch sight.verdict {
      case "SUCCESS": ("good", "Your certificate was accepted", sight.subject ?? "")
      case "NONE": ("none", "You presented no certificate", "the demo was started with --verify optional")
      default: ("none", "Your certificate did not verify", sight.verdict)
      }
    text = """
      <!doctype html>
      <html lang="en">
      <head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
      <title>sallyport demo</title><style>\(Self.style)</style></head>
      <body><main>
      <header class="\(banner.0)"><h1>\(banner.1)</h1><p id="identity">\(Self.escaped(banner.2))</p></header>
      <section><h2>TLS between you and sallyport</h2>\(Self.table(sight.handshake))</section>
      <section><h2>Your verified chain</h2>\(Self.chain(sight.chain))</section>
      <section><h2>TLS between sallyport and its upstream</h2>\(Self.table(sight.upstream))</section>
      <section><h2>What the upstream was sent</h2>
      <p><code>\(Self.escaped("\(sight.request.method) \(sight.request.target)"))</code></p>
      \(Self.table(sight.request.fields.map { ($0.name, $0.value) }))</section>
      <section><h2>More to try</h2><p><a href="/delay/2">/delay/2</a> <a href="/bytes/1000">/bytes/1000</a>
      <a href="/status/503">/status/503</a> <code>/upload</code> <code>/ws</code></p></section>
      </main></body></html>

      """
  }

  private static func chain(_ links: [ClientReport.Link]) -> String {
    guard !links.isEmpty else { return "<p>none</p>" }
    return links.map { link in
      table([
        ("subject", link.subject), ("issuer", link.issuer), ("serial", link.serial),
        ("names", link.names.joined(separator: ", ")), ("valid", "\(link.begins) to \(link.ends)"),
      ])
    }.joined()
  }

  private static func table(_ rows: [(name: String, value: String?)]) -> String {
    let lines = rows.map { row in
      "<tr><th>\(escaped(row.name.replacing("_", with: " ")))</th><td>\(escaped(row.value ?? "–"))</td></tr>"
    }
    return "<table>\(lines.joined())</table>"
  }

  private static func escaped(_ text: String) -> String { HTMLText.escaped(text) }

  static let style = """
    :root{color-scheme:light dark}body{font:15px/1.5 system-ui,sans-serif;margin:0}main{max-width:52rem;margin:0 auto;padding:1rem}
    header{border-radius:.6rem;padding:.8rem 1.2rem;color:#fff}header.good{background:#1a7f37}header.none{background:#9a6700}header.refused{background:#b42318}
    h1{font-size:1.4rem;margin:.2rem 0}h2{font-size:1.05rem;margin:1.6rem 0 .4rem}header p{margin:.2rem 0;font-family:ui-monospace,monospace}
    table{border-collapse:collapse;width:100%;margin-bottom:.8rem}th,td{text-align:left;vertical-align:top;padding:.25rem .5rem;border-top:1px solid #8884}
    th{width:11rem;font-weight:600}td{font-family:ui-monospace,monospace;font-size:.85rem;overflow-wrap:anywhere}
    """
}
