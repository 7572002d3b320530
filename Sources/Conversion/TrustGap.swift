/// A server that an old configuration doesn't verify. In the new one stands a pin to fill in: `sallyport check` fails until
/// it is.
package struct TrustGap: Sendable, Hashable {
  package let host: String
  package let port: Int
  /// As `starttls` names it; nil: TLS begins at once.
  package let starttls: String?
  /// The proxy on the way, as `proxy_via` names it; nil: there is none.
  package let via: String?

  init(host: String, port: Int, starttls: String? = nil, via: String? = nil) {
    self.via = via
    self.host = host
    self.port = port
    self.starttls = starttls
  }

  /// A file that isn't there, so that `check` names it and nothing can start.
  var path: String { "TO-BE-FILLED-IN/\(host.replacing(":", with: "_"))-\(port)" }

  func reason(_ peer: String) -> String {
    danger(peer) + "fill in the pin that \(command) prints, after its owner has confirmed it; or name its CA with "
      + "proxy_ssl_trusted_certificate in place of the two lines"
  }

  /// Of one of several servers, whose CA is filled in once for all of them.
  func reasonAmongOthers(_ peer: String, prefix: String) -> String {
    danger(peer) + "name the CA that issued its certificate. If it has none, write here what \(command) prints, after "
      + "its owner has confirmed it: \(prefix)_verify off; \(prefix)_pin PIN;"
  }

  private func danger(_ peer: String) -> String {
    "\(peer) doesn't verify this server, so anybody on the way can take its place: "
  }

  private var command: String {
    let shown = host.contains(":") ? "[\(host)]" : host
    let options = (starttls.map { " --starttls \($0)" } ?? "") + (via.map { " --via \($0)" } ?? "")
    return "`sallyport pin \(shown):\(port)\(options)`"
  }
}

extension Converted {
  /// The same with the pins that `pin` finds; nil: it finds none. What was refused stays so, because nothing proves a pin
  /// that a server itself has told.
  package func filled(warns: Bool = true, _ pin: (TrustGap) -> String?) -> Converted {
    var pins: [String: String] = [:]
    for gap in Set(gaps) {
      if let found = pin(gap) { pins[ConvertedWord.statement("", [gap.path])] = found }
    }
    guard !pins.isEmpty else { return self }
    let lines = text.split(separator: "\n", omittingEmptySubsequences: false).flatMap { line -> [String] in
      let indent = line.prefix { $0 == " " }
      let words = line.dropFirst(indent.count)
      guard let blank = words.firstIndex(of: " "), words[..<blank].hasSuffix("_ssl_pin"),
        let found = pins[String(words[blank...])]
      else { return [String(line)] }
      let warning = "\(indent)# The server showed this key, and nothing proves that it is the right one: ask its owner."
      return (warns ? [warning] : []) + ["\(indent)\(words[..<blank]) \(found);"]
    }
    return Converted(
      text: lines.joined(separator: "\n"), notes: notes, hasServers: hasServers, gaps: gaps,
      parts: warns ? [:] : parts)
  }
}
