/// The same numbers for the same seed.
struct SeededNumbers: RandomNumberGenerator {
  private var state: UInt64

  init(seed: UInt64) { state = seed &* 0x9E37_79B9_7F4A_7C15 &+ 1 }

  mutating func next() -> UInt64 {
    state &+= 0x9E37_79B9_7F4A_7C15
    var value = state
    value = (value ^ (value >> 30)) &* 0xBF58_476D_1CE4_E5B9
    value = (value ^ (value >> 27)) &* 0x94D0_49BB_1331_11EB
    return value ^ (value >> 31)
  }

  mutating func roll(_ percent: Int) -> Bool { Int.random(in: 0..<100, using: &self) < percent }
  mutating func pick<Element>(_ elements: [Element]) -> Element {
    elements[Int.random(in: 0..<elements.count, using: &self)]
  }
}

/// A configuration of a small grammar: listeners, names, default servers, modes of verification, rules, locations of all
/// kinds, and what leads from one to another. Not every text is a valid configuration.
struct RandomConfiguration {
  let text: String

  static let names = ["a.test", "b.test", "*.c.test", "~^d[0-9]\\.test$", "\"\""]
  static let hosts = ["a.test", "b.test", "x.c.test", "d7.test", "unknown.test"]
  static let paths = ["/", "/a", "/a/", "/a/b", "/admin/", "/A", "/x", "/p.php", "/s/", "/auth", "/e", "/i/"]
  static let clientNames = ["alice", "bob"]

  private var numbers: SeededNumbers
  private var port = 9000

  init(seed: UInt64) {
    var maker = RandomConfiguration(numbers: SeededNumbers(seed: seed))
    self = RandomConfiguration(text: maker.make(), numbers: maker.numbers)
  }

  private init(text: String = "", numbers: SeededNumbers) {
    self.text = text
    self.numbers = numbers
  }

  private mutating func make() -> String {
    let http =
      "http {\nlimit_req_zone $uri zone=r:1m rate=1r/s; limit_conn_zone $uri zone=c:1m;\nssl_certificate server.pem; ssl_certificate_key server.key;\n\(servers())}\n"
    let stream = numbers.roll(30) ? "stream {\n\(sessions())}\n" : ""
    return "events {}\n\(http)\(stream)"
  }

  private mutating func servers() -> String {
    let proxied = numbers.roll(15) ? " proxy_protocol" : ""
    let ports = ["8441 ssl", "8442 ssl\(proxied)", "8080"]
    var servers = ""
    var defaults: Set<String> = []
    var names = Self.names.shuffled(using: &numbers)
    for _ in 0..<Int.random(in: 1...4, using: &numbers) {
      var listens = ""
      for port in ports.shuffled(using: &numbers).prefix(Int.random(in: 1...2, using: &numbers)) {
        let isDefault = numbers.roll(30) && defaults.insert(port).inserted
        listens += "listen 127.0.0.1:\(port)\(isDefault ? " default_server" : "");\n"
      }
      let isTLS = listens.contains("ssl")
      servers += "server {\n\(listens)server_name \(names.popLast() ?? "\"\"");\n\(server(isTLS))}\n"
    }
    return servers
  }

  // MARK: stream

  private mutating func sessions() -> String {
    let ports = ["8451 ssl", "8452", "8453 ssl proxy_protocol"]
    var names = Self.names.dropLast().shuffled(using: &numbers)
    var servers = ""
    for port in ports.prefix(Int.random(in: 1...3, using: &numbers)) {
      let isTLS = port.contains("ssl")
      for _ in 0..<(isTLS ? Int.random(in: 1...2, using: &numbers) : 1) {
        let name = isTLS ? "server_name \(names.popLast() ?? "z.test");\n" : ""
        servers += "server {\nlisten 127.0.0.1:\(port);\n\(name)\(session(isTLS))}\n"
      }
    }
    return servers
  }

  private mutating func session(_ isTLS: Bool) -> String {
    var lines = isTLS ? "ssl_certificate server.pem; ssl_certificate_key server.key;\n" : ""
    let mode = isTLS ? numbers.pick(["off", "on", "on", "optional", "optional_no_ca"]) : "off"
    if mode != "off" {
      lines += "ssl_client_certificate \(numbers.pick(["one.pem", "two.pem"])); ssl_verify_client \(mode);\n"
      if numbers.roll(30) { lines += "ssl_client_allow cn=alice;\n" }
      if numbers.roll(10) { lines += "ssl_client_deny cn=bob;\n" }
    }
    if mode == "on", numbers.roll(10) { lines += "ssl_verify_report_only on;\n" }
    if numbers.roll(20) { lines += "set_real_ip_from 10.0.0.0/8;\n" }
    if numbers.roll(25) { lines += "allow 10.0.0.0/8; deny all;\n" }
    if numbers.roll(10) { lines += "deny 10.0.0.0/8;\n" }
    if numbers.roll(20) { return lines + "return text;\n" }
    if numbers.roll(10) { return lines + "pass 127.0.0.1:8080;\n" }
    port += 1
    return lines + "proxy_pass 127.0.0.1:\(port);\n"
  }

  // MARK: http

  private mutating func server(_ isTLS: Bool) -> String {
    var lines = ""
    // Without TLS, a front can say who the clients are.
    let modes = ["off", "on", "on", "optional", "optional_no_ca"]
    let mode = isTLS ? numbers.pick(modes) : numbers.roll(20) ? numbers.pick(modes) : "off"
    if mode != "off" {
      lines += "ssl_client_certificate \(numbers.pick(["one.pem", "two.pem"])); ssl_verify_client \(mode);\n"
      if !isTLS { lines += "real_client_cert_from 10.0.0.0/8; real_client_cert_header X-Cert rfc9440;\n" }
    }
    if mode == "on", numbers.roll(10) { lines += "ssl_verify_report_only on;\n" }
    if isTLS, mode == "on", numbers.roll(10) { lines += "ssl_verify_reject handshake;\n" }
    if isTLS, numbers.roll(5) { lines += "ssl_reject_handshake on;\n" }
    // Fronts of both kinds: of certificates, and of addresses.
    if isTLS, mode != "off", numbers.roll(15) {
      let format = numbers.pick(["rfc9440", "xfcc", "pem", "der"])
      lines += "real_client_cert_from 10.0.0.0/8; real_client_cert_header X-Cert \(format);\n"
    }
    if numbers.roll(10) {
      lines += "set_real_ip_from 10.0.0.0/8; real_ip_header \(numbers.pick(["proxy_protocol", "X-Real-IP"]));\n"
    }
    if numbers.roll(10) { lines += "merge_slashes off;\n" }
    if numbers.roll(30) { lines += "path_readings off;\n" }
    if mode != "off", numbers.roll(20) { lines += "ssl_client_allow cn=alice;\n" }
    if mode != "off", numbers.roll(10) { lines += "ssl_client_deny cn=bob;\n" }
    if numbers.roll(10) { lines += "deny 10.0.0.0/8;\n" }
    if numbers.roll(10) { lines += "rewrite ^/r/(.*)$ /a/$1 last;\n" }
    if numbers.roll(5) { lines += "if ($request_method = DELETE) { return 403; }\n" }
    if numbers.roll(20) {
      lines += "error_page \(numbers.pick(["403", "404", "495 496", "497", "400", "421"])) \(target());\n"
    }
    var seen: Set<String> = []
    if numbers.roll(60) {
      seen.insert("/")
      lines += location("/", mode, depth: 1)
    }
    for _ in 0..<Int.random(in: 1...5, using: &numbers) {
      let match = self.match()
      if seen.insert(match.hasPrefix("^~ ") ? String(match.dropFirst(3)) : match).inserted {
        lines += location(match, mode, depth: 0)
      }
    }
    for name in ["@n", "@m"] where numbers.roll(60) || lines.contains(name) { lines += location(name, mode, depth: 1) }
    return lines
  }

  private mutating func target() -> String { numbers.pick(["/e", "@n", "@m", "/admin/", "= /i/x", "=200 /a/b"]) }

  private mutating func match() -> String {
    let path = numbers.pick(Self.paths)
    return switch Int.random(in: 0..<10, using: &numbers) {
    case 0: "= \(path)"
    case 1: "^~ \(path)"
    case 2: "~ ^/[a-p]"
    case 3: "~* \\.php$"
    default: path
    }
  }

  private mutating func location(_ match: String, _ mode: String, depth: Int) -> String {
    var lines = ""
    if numbers.roll(15), !match.hasPrefix("@") { lines += "internal;\n" }
    if numbers.roll(15) { lines += "allow 10.0.0.0/8; deny all;\n" }
    if numbers.roll(5) { lines += "deny all;\n" }
    if numbers.roll(15) { lines += "auth_basic a; auth_basic_user_file users;\n" }
    if numbers.roll(15) { lines += "satisfy any;\n" }
    if numbers.roll(5) { lines += "limit_req zone=r burst=5 nodelay;\n" }
    if numbers.roll(5) { lines += "limit_conn c 5;\n" }
    if mode != "off", numbers.roll(15) { lines += "ssl_client_allow cn=\(numbers.pick(Self.clientNames));\n" }
    if numbers.roll(10) { lines += "if ($ssl_client_verify != SUCCESS) { return 403; }\n" }
    if numbers.roll(5) { lines += "if ($arg_x) { return 403; }\n" }
    if numbers.roll(8), !match.hasPrefix("@") { lines += "limit_except GET { deny all; }\n" }
    if numbers.roll(10) { lines += "rewrite ^ \(numbers.pick(["/i/x", "/admin/", "/a/b"])) last;\n" }
    if numbers.roll(10) { lines += "rewrite ^/a(.*)$ /admin$1;\n" }
    if numbers.roll(10) { lines += "auth_request /auth;\n" }
    if numbers.roll(15) { lines += "error_page \(numbers.pick(["403", "404", "401"])) \(target());\n" }
    if numbers.roll(5) { lines += "mirror /auth;\n" }
    switch Int.random(in: 0..<10, using: &numbers) {
    case 0: lines += "return 200 text;\n"
    case 1: if numbers.roll(50) { lines += "return 404;\n" }
    default:
      lines += pass(match)
    }
    if depth == 0, numbers.roll(15), match.hasPrefix("/") { lines += location("\(match)inner", mode, depth: 1) }
    return "location \(match) {\n\(lines)}\n"
  }

  /// To an upstream of its own, with the request's path or another one. The port decides, so that no number is drawn.
  private mutating func pass(_ match: String) -> String {
    port += 1
    let isPattern = match.hasPrefix("~") || match.hasPrefix("@")
    return switch port % 7 {
    case 1: "set $t 127.0.0.1:\(port); proxy_pass http://$t/v/x;\n"
    case 2: "set $t 127.0.0.1:\(port); proxy_pass http://$t/v$uri;\n"
    case 3: "set $t 127.0.0.1:\(port); proxy_pass http://$t;\n"
    case 4 where !isPattern: "proxy_pass http://127.0.0.1:\(port)/v/;\n"
    default: "proxy_pass http://127.0.0.1:\(port);\n"
    }
  }
}
