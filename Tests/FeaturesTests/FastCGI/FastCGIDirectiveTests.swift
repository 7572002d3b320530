import CGI
import ConfigurationSupport
@testable import Features
@testable import Forward
import Observability
import Testing
@testable import Traffic
import Upstream

/// A location whose lines begin in line 2, column 1.
private func location(_ lines: String, at path: String = "/a/", http: String = "") -> LoadedText {
  LoadedText("http { \(http) server { listen 80; location \(path) {\n\(lines)\n} } }")
}

private func pass(_ lines: String, http: String = "") -> UpstreamPass? {
  location(lines, http: http).settings?.http.servers.first?.root.locations.first?[UpstreamPass.self]
}

@Suite struct `Directives of FastCGI, SCGI and uwsgi` {
  @Test func `name a server as nginx does`() throws {
    let plain = try #require(pass("fastcgi_pass localhost:9000;"))
    #expect(plain.scheme == .http && plain.target.uri == nil && !plain.dialect.speaksHTTP)
    #expect(plain.buffers.collectsRequests)
    #expect(try #require(pass("scgi_pass unix:/run/x.sock;")).scheme == .http)
    #expect(try #require(pass("uwsgi_pass uwsgi://h:1;")).scheme == .http)
    let secure = try #require(pass("uwsgi_pass suwsgi://h.example:443; uwsgi_ssl_verify off;"))
    #expect(secure.scheme == .https && secure.trust.name == Template(literal: "h.example"))
    let grouped = try #require(pass("fastcgi_pass php;", http: "upstream php { server unix:/run/a; }"))
    #expect(grouped.target.upstream == .group(0, .http))
    #expect(try #require(pass("fastcgi_pass $arg_x;")).target.upstream.template != nil)
    #expect(try #require(pass("fastcgi_pass unix:/run/$arg_x.sock;")).target.upstream.template != nil)
  }

  @Test func `have their own timeouts and kinds, and those of the proxy module don't apply`() throws {
    let found = try #require(
      pass(
        """
        fastcgi_pass h:1; fastcgi_read_timeout 7s; fastcgi_send_timeout 8s; fastcgi_connect_timeout 9s;
        fastcgi_next_upstream off; fastcgi_intercept_errors on; fastcgi_buffer_size 32k; fastcgi_keep_conn on;
        fastcgi_request_buffering off; fastcgi_hide_header X-Powered-By; proxy_read_timeout 1s;
        """))
    #expect(found.timeouts.read == 7000 && found.timeouts.send == 8000 && found.timeouts.connect == 9000)
    #expect(found.retry.conditions.isEmpty && found.response.interceptsErrors && found.buffers.head == 32_768)
    #expect(!found.buffers.collectsRequests)
    let hidden = found.response.hiddenFields.map { String(decoding: $0, as: UTF8.self) }
    #expect(hidden.contains("status") && hidden.contains("x-powered-by"))
    #expect(found[ProgramSettings.self]?.kind == .fastCGI(keepsConnection: true))
    let uwsgi = try #require(pass("uwsgi_pass h:1; uwsgi_modifier1 5; uwsgi_modifier2 255;"))
    #expect(uwsgi[ProgramSettings.self]?.kind == .uwsgi(modifier1: 5, modifier2: 255))
  }

  @Test(arguments: [
    (
      "fastcgi_pass http://h:1;",
      "2:14 invalid URL prefix in \"http://h:1\" | fastcgi_pass ADDRESS:PORT or fastcgi_pass unix:/PATH"
    ),
    (
      "fastcgi_pass h:1/x;",
      "2:14 \"fastcgi_pass\" cannot have a URI part | leave out \"/x\": parameters tell the server what is asked for"
    ),
    (
      "fastcgi_pass h;",
      "2:14 no port in upstream in \"fastcgi_pass\" directive: \"fastcgi://h\" | fastcgi_pass ADDRESS:PORT or fastcgi_pass unix:/PATH; or an upstream's name"
    ),
    (
      "fastcgi_pass h:1; fastcgi_param A=B c;",
      "2:33 invalid name \"A=B\" of a parameter | a name such as SCRIPT_FILENAME: without blanks, \"=\" and variables"
    ),
    (
      "scgi_pass h:1; scgi_param A b if_empty;",
      "2:31 invalid parameter \"if_empty\" | scgi_param NAME VALUE [if_not_empty]"
    ),
    (
      "fastcgi_pass h:1; fastcgi_split_path_info ^(.+)$;",
      "2:43 pattern \"^(.+)$\" must have 2 captures | the first one is the script's name, the second one what follows: ^(.+?\\.php)(/.*)$"
    ),
    (
      "uwsgi_pass h:1; uwsgi_modifier1 256;",
      "2:33 invalid value \"256\" in \"uwsgi_modifier1\" directive | it must be a number from 0 to 255"
    ),
    (
      "fastcgi_pass h:1; proxy_pass http://h;",
      "2:1 \"fastcgi_pass\" beside \"proxy_pass\" | the other is at /etc/x.conf:2:19"
    ),
  ])
  func `that make no sense are refused`(lines: String, problem: String) {
    #expect(location(lines).errors == [problem])
  }

  @Test func `warn of a pass that tells nothing, and of lines for another protocol`() {
    #expect(
      location("fastcgi_pass h:1;").problems.contains(
        "2:1 warning: \"fastcgi_pass\" without \"fastcgi_param\": the server isn't told which program to run | include fastcgi_params; and what the program needs"
      ))
    #expect(
      location("scgi_pass h:1; scgi_param A b; proxy_read_timeout 1s; ").problems.contains {
        $0.contains("\"proxy_read_timeout\" has no effect on scgi_pass | write scgi_read_timeout")
      })
  }

  @Test func `say nothing of TLS where the protocol has none`() {
    let found = location("fastcgi_pass $arg_b; fastcgi_param A b;").problems
    #expect(found.count == 1 && found.first?.contains("a request chooses the server") == true, "\(found)")
    #expect(location("uwsgi_pass $arg_b; uwsgi_param A b;").problems.contains { $0.contains("uwsgi_ssl_verify") })
  }

  @Test func `warn of lines that take away what the lines around them tell of the client`() {
    func isWarned(_ own: String) -> Bool {
      let http = "uwsgi_param REMOTE_ADDR $remote_addr; uwsgi_param HTTP_HOST $host; uwsgi_param X y;"
      return location("uwsgi_pass h:1; \(own)", http: http).problems.contains {
        $0.hasSuffix(
          "the upstream isn't told who the client is: REMOTE_ADDR, HTTP_HOST, X | repeat the lines here, or set all of them outside; they are at /etc/x.conf:1:8"
        )
      }
    }
    #expect(isWarned("uwsgi_param A b;"))
    #expect(!isWarned("uwsgi_param A b; uwsgi_pass_request_headers off;"))
    #expect(!isWarned("uwsgi_param ADDRESS $remote_addr;"))
    #expect(!isWarned(""))
  }

  @Test(arguments: [
    ("proxy_auth basic; proxy_auth_user_file users;", "it answers challenges of HTTP"),
    (
      "message_envelope on; message_envelope_cipher aes-256-gcm; message_envelope_key k; message_envelope_mac none;",
      "it seals messages of HTTP"
    ),
    ("message_signature sign; message_signature_key k hmac-sha256 a.key;", "it signs messages of HTTP"),
  ])
  func `refuse what is for HTTP alone, wherever it is on`(lines: String, reason: String) {
    for module in ["fastcgi", "scgi", "uwsgi"] {
      let errors = location("\(module)_pass h:1; \(module)_param A b;", http: lines).errors
      #expect(errors.contains { $0.contains(reason) }, "\(errors)")
    }
  }

  @Test func `client_identity mod_ssl is for them alone, and excludes a line of the same name`() {
    let server = """
      listen 443 ssl; ssl_certificate a; ssl_certificate_key b; ssl_client_certificate c; ssl_verify_client on;
      client_identity mod_ssl;
      """
    func errors(_ lines: String) -> [String] {
      LoadedText("http { server { \(server) location / {\n\(lines)\n} } }").errors
    }
    #expect(errors("fastcgi_pass h:1; fastcgi_param A b;") == [])
    #expect(errors("proxy_pass http://h;").first?.contains("\"client_identity mod_ssl\" sets parameters") == true)
    #expect(
      errors("fastcgi_pass h:1; fastcgi_param SSL_CLIENT_S_DN x;") == [
        "3:33 the parameter \"SSL_CLIENT_S_DN\" is set here and by another directive | remove one of the two; fastcgi_pass is at /etc/x.conf:3:1"
      ])
  }
}

@Suite struct `Names of scripts` {
  private func found(_ lines: String, _ path: String) throws -> [String] {
    let rig = try Rig(
      "server { listen 80; location / { \(lines) return 200 \"$fastcgi_script_name,$fastcgi_path_info\"; } }")
    return try rig.answer("GET \(path) HTTP/1.0\r\n\r\n").split(separator: "\r\n").suffix(1).map(String.init)
  }

  @Test(arguments: [
    ("", "/a.php", "/a.php,"), ("", "/a/", "/a/,"), ("fastcgi_index i.php;", "/a/", "/a/i.php,"),
    ("fastcgi_index i.php;", "/a", "/a,"),
    ("fastcgi_split_path_info ^(.+?\\.php)(/.*)$;", "/a.php/b.php/c", "/a.php,/b.php/c"),
    ("fastcgi_split_path_info ^(.+\\.php)(/.*)$;", "/a.php/b.php/c", "/a.php/b.php,/c"),
    ("fastcgi_split_path_info ^(.+?\\.php)(/.*)$;", "/a.PHP/b", "/a.PHP/b,"),
    ("fastcgi_split_path_info ^(.+?\\.php)(/.*)$; fastcgi_index i.php;", "/a/", "/a/i.php,"),
    ("fastcgi_split_path_info ^(/x/)(.*)$; fastcgi_index i.php;", "/x/y", "/x/i.php,y"),
    ("fastcgi_split_path_info ^(.+?\\.php)(/.*)?$;", "/a.php", "/a.php,"),
  ])
  func `are found in paths as nginx finds them`(lines: String, path: String, expected: String) throws {
    #expect(try found(lines, path) == [expected])
  }
}

@Suite struct `A path that chooses the file to run` {
  private static let parameter = "fastcgi_param SCRIPT_FILENAME $document_root$fastcgi_script_name;"

  private func isWarned(_ path: String, _ lines: String) -> Bool {
    location("fastcgi_pass h:1; \(lines)", at: path).problems.contains { $0.contains("may run /photo.jpg as a script") }
  }

  @Test(arguments: [
    ("~ \\.php$", parameter), ("/", parameter), ("~ \\.php(/|$)", parameter), ("~ ^/.*\\.php", parameter),
    ("~ \\.php$", parameter + "fastcgi_split_path_info ^(.+?\\.php)(/.*)$;"),
    ("~ \\.php$", "fastcgi_param SCRIPT_FILENAME /srv${fastcgi_script_name};"),
    ("~ \\.php$", "fastcgi_param SCRIPT_FILENAME $request_filename;"),
    ("~ \\.php$", parameter + "try_files /maintenance.html =404;"),
    ("~ \\.php$", parameter + "if (-f $document_root$fastcgi_script_name) { return 404; }"),
  ])
  func `is warned of`(path: String, lines: String) {
    #expect(isWarned(path, lines))
  }

  @Test(arguments: [
    ("~ \\.php$", parameter + "try_files $fastcgi_script_name =404;"),
    ("~ \\.php$", parameter + "try_files $uri =404;"),
    ("~ \\.php$", parameter + "if (!-f $document_root$fastcgi_script_name) { return 404; }"),
    ("= /index.php", parameter), ("~ ^/index\\.php(/|$)", parameter),
    ("~ ^/(?:index|status)\\.php(?:$|/)", parameter), ("~ \\.php$", "fastcgi_param SCRIPT_FILENAME /srv/index.php;"),
    ("~ \\.php$", "fastcgi_param SCRIPT_NAME $fastcgi_script_name;"),
  ])
  func `is not warned of where the file must be there, or is always the same`(path: String, lines: String) {
    #expect(!isWarned(path, lines))
  }
}
