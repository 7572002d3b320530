/// What stands where an old configuration verifies no server: a pin to fill in. `sallyport check` fails until it is.
enum TrustGap {
  /// A file that isn't there, so that `check` names it and nothing can start.
  static func path(host: String, port: Int) -> String { "TO-BE-FILLED-IN/\(host.replacing(":", with: "_"))-\(port)" }

  static func reason(_ peer: String, host: String, port: Int, starttls: String? = nil) -> String {
    let shown = host.contains(":") ? "[\(host)]" : host
    let option = starttls.map { " --starttls \($0)" } ?? ""
    return "\(peer) doesn't verify this server, so anybody on the way can take its place: fill in the pin that "
      + "`sallyport pin \(shown):\(port)\(option)` prints, after its owner has confirmed it; or name its CA with "
      + "proxy_ssl_trusted_certificate in place of the two lines"
  }
}
