package import Language
package import Observability

/// What a `load_module` of nginx would bring. sallyport loads nothing: a module that it has is built in, and what another one
/// does is missed only by lines that name it, each of which is refused by name.
package enum LoadedModule: Sendable, Equatable {
  /// sallyport has it, or nobody misses it.
  case builtIn
  /// The directives that are missed, as messages name them.
  case missed(directives: [String], instead: String)
  /// Nobody knows what it does, perhaps without a directive.
  case unknown

  /// `path`: of the file, whose name says the module.
  package init(_ path: String) {
    let file = String(path.split(separator: "/").last ?? "")
    if Self.builtIns.contains(file) {
      self = .builtIn
    } else if let module = foreignModules.first(where: { $0.files.contains(file) }) {
      self = module.isHarmless ? .builtIn : .missed(directives: module.directives, instead: module.instead)
    } else if let names = Self.ofNginx[file] {
      // The first name stands in the table of what is refused, with the advice.
      let entry = foreignDirectives.first { $0.name == names.first }
      var advice = ""
      if case .foreign(let instead)? = entry?.status { advice = instead }
      self = .missed(directives: names, instead: advice)
    } else {
      self = .unknown
    }
  }

  /// Modules of nginx's own packages, and Debian's kit that others are built on.
  private static let builtIns: Set = [
    "ngx_stream_module.so", "ngx_otel_module.so", "ngx_http_acme_module.so", "ndk_http_module.so",
  ]

  /// The others of nginx's own packages, with the directives that a configuration uses them by.
  private static let ofNginx: [String: [String]] = [
    "ngx_mail_module.so": ["mail"],
    "ngx_http_geoip_module.so": ["geoip_country", "geoip_city", "geoip_org"],
    "ngx_stream_geoip_module.so": ["geoip_country", "geoip_city", "geoip_org"],
    "ngx_http_image_filter_module.so": ["image_filter"],
    "ngx_http_xslt_filter_module.so": ["xslt_stylesheet", "xml_entities"],
    "ngx_http_perl_module.so": ["perl", "perl_modules", "perl_set"],
    "ngx_http_js_module.so": ["js_import", "js_content", "js_set"],
    "ngx_stream_js_module.so": ["js_import", "js_access", "js_filter", "js_preread"],
  ]

  /// What a line is told with; nil for a module that is built in.
  @Sendable package static func remark(_ line: Directive) -> Diagnostic? {
    let path = line.text(0)
    switch LoadedModule(path) {
    case .builtIn: return nil
    case .missed(let directives, let instead):
      let names = directives.map { "`\($0)`" }.joined(separator: ", ")
      return Diagnostic(
        .notice, at: line.location, "\"\(path)\" is not loaded, and lines with \(Wording(names)) are refused",
        hint: instead.isEmpty ? nil : Wording(instead))
    case .unknown:
      return Diagnostic(
        .warning, at: line.location, "\"\(path)\" is not loaded, and sallyport doesn't know what it does",
        hint: "leave the line out if no client is kept out by the module alone: its directives are refused by name")
    }
  }
}
