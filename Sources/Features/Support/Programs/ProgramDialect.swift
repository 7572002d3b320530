import Forward
import Language
import Traffic
import Upstream

/// What the protocols have alike in which servers of programs are spoken to.
enum ProgramDialect {
  /// The rows of the proxy module that nginx's modules of all three protocols have too.
  static let taken = PassNames.words(
    """
    allow_upstream bind buffer_size buffering buffers busy_buffers_size connect_timeout hide_header
    ignore_client_abort ignore_headers intercept_errors limit_rate max_temp_file_size next_upstream
    next_upstream_timeout next_upstream_tries pass_header pass_request_body pass_request_headers read_timeout
    request_buffering send_timeout socket_keepalive socket_rcvbuf socket_sndbuf temp_file_write_size temp_path
    """)

  /// The field Status of a program's response has become the response's status.
  static func make(
    _ wire: UpstreamWire, _ names: PassNames, _ spelling: String, portForm: String
  ) -> PassDialect {
    var dialect = PassDialect(name: wire.name, prefix: names.prefix)
    dialect.schemes = [(spelling, .http)]
    dialect.standardScheme = .http
    dialect.portForm = portForm
    dialect.version = .wire(wire)
    dialect.hiddenFields = ["status"]
    dialect.standardFields = [("Host", Template([.variable(.requestField(Array("host".utf8)))]))]
    return dialect
  }

  /// The row of the line that names the server.
  static func pass(_ name: String, _ what: String, _ form: String, example: String) -> DirectiveEntry {
    .local(
      name, [.location, .locationIf], .words(1...1, form),
      "Forwards requests to \(what). The address has a port, or names a unix socket or an upstream group; variables can name it too.",
      example: example, trust: .told)
  }

  /// The row of parameters.
  static func parameter(_ name: String, _ example: String) -> DirectiveEntry {
    .list(
      name, .everyHTTP, .words(2...3, "NAME VALUE [if_not_empty]"), "",
      "Sets a parameter of requests; with `if_not_empty`, only where the value isn't empty. A level with lines of its own takes none of those around it. The client's fields become parameters `HTTP_…`, except those that a line sets: no spelling of a field's name becomes such a parameter, and `Proxy` becomes none.",
      example: example, trust: .told)
  }
}
