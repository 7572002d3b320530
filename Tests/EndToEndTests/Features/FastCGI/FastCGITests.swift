import Foundation
import TestSupport
import Testing

/// A daemon in front of php-fpm with these scripts.
private struct PHP: Sendable {
  let scene: Scene
  let port: UInt16
  let daemon: Sallyport
  let fpm: ChildProcess

  static let scripts = [
    "echo.php": """
    <?php
    $hash = hash_init('sha256'); $count = 0; $input = fopen('php://input', 'rb');
    while (($piece = fread($input, 65536)) !== false && $piece !== '') { hash_update($hash, $piece); $count += strlen($piece); }
    header('Content-Type: application/json'); header('X-Pid: ' . getmypid());
    echo json_encode(['count' => $count, 'sha' => hash_final($hash), 'server' => $_SERVER]);
    """,
    "status.php": """
    <?php
    $code = (int) $_GET['code'];
    if ($code === 302) { header('Location: /elsewhere'); } else { http_response_code($code); }
    if (isset($_GET['body'])) echo str_repeat('x', (int) $_GET['body']);
    """,
    "slow.php": """
    <?php
    for ($i = 0; $i < 5; $i++) { echo "$i\\n"; while (ob_get_level()) ob_end_flush(); flush(); usleep(200000); }
    """,
    "flood.php": "<?php for ($i = 0; $i < 3000; $i++) error_log(\"line $i of many\"); echo 'over';",
    "fatal.php": "<?php error_log('PHP Fatal thing'); echo 'not seen';",
    "dies.php": """
    <?php
    header('Content-Length: 100000'); echo str_repeat('y', 40000);
    while (ob_get_level()) ob_end_flush(); flush(); usleep(100000); shell_exec('kill -9 ' . getmypid());
    """,
    "dies-at-once.php": "<?php shell_exec('kill -9 ' . getmypid());",
    "large.php": "<?php for ($i = 0; $i < 4096; $i++) echo str_repeat(chr(65 + $i % 26), 65536);",
  ]

  init(_ scene: Scene, _ lines: String = "", group: String = "", http: String = "") async throws {
    self.scene = scene
    for (name, text) in Self.scripts { try scene.write(name, text: text) }
    let upstream = try scene.port()
    fpm = try await ProgramServer.fpm(scene, port: upstream)
    port = try scene.port()
    daemon = try await Sallyport.serve(
      scene,
      """
      \(http)
      upstream php { server 127.0.0.1:\(upstream); \(group) }
      server {
        listen 127.0.0.1:\(port); root \(scene.folder); client_max_body_size 0;
        location ~ \\.php$ {
          try_files $fastcgi_script_name =404;
          include \(Self.parameters);
          fastcgi_param SCRIPT_FILENAME $document_root$fastcgi_script_name;
          fastcgi_pass php;
          \(lines)
        }
      }
      """)
  }

  /// Debian's file, which nginx brings.
  private static let parameters = "/etc/nginx/fastcgi_params"

  func curl(_ path: String, _ arguments: [String] = [], input: [UInt8]? = nil) async throws -> CurlResult {
    try await scene.curl(arguments + ["http://127.0.0.1:\(port)\(path)"], input: input)
  }

  func echo(_ path: String, _ arguments: [String] = [], input: [UInt8]? = nil) async throws -> Echo {
    let result = try await curl(path, arguments, input: input)
    return try JSONDecoder().decode(Echo.self, from: Data(result.body))
  }
}

/// What echo.php says of its request.
private struct Echo: Decodable {
  var count: Int
  var sha: String
  var server: [String: Value]

  /// PHP makes numbers of some parameters.
  enum Value: Decodable, Equatable {
    case text(String), other

    init(from decoder: any Decoder) throws {
      self = (try? decoder.singleValueContainer().decode(String.self)).map { .text($0) } ?? .other
    }
  }

  subscript(name: String) -> String? { if case .text(let text) = server[name] { text } else { nil } }
}

@Suite(
  .staged,
  .enabled(
    if: ProgramServer.fpm != nil && access("/etc/nginx/fastcgi_params", R_OK) == 0, "php-fpm or nginx is not installed")
)
struct `Scripts of php-fpm` {
  @Test func `get their parameters, fields and bodies`() async throws {
    let scene = try Scene.ofTest(), php = try await PHP(scene)
    let body = [UInt8]("name=value".utf8)
    let echo = try await php.echo(
      "/echo.php?a=b%20c", ["-H", "X-Thing: one", "-H", "Proxy: http://evil/"], input: body)
    #expect(echo.count == 10)
    #expect(echo["REQUEST_METHOD"] == "POST" && echo["QUERY_STRING"] == "a=b%20c" && echo["CONTENT_LENGTH"] == "10")
    #expect(echo["SCRIPT_NAME"] == "/echo.php" && echo["HTTP_X_THING"] == "one" && echo["HTTP_PROXY"] == nil)
    #expect(echo["HTTP_HOST"]?.hasPrefix("127.0.0.1") == true && echo["SERVER_PROTOCOL"]?.hasPrefix("HTTP/") == true)
    #expect(!php.daemon.errorLog.contains("[error]"))
  }

  @Test func `say the status, and have no body where HTTP allows none`() async throws {
    let scene = try Scene.ofTest(), php = try await PHP(scene)
    for code in [200, 404, 503] {
      let result = try await php.curl("/status.php?code=\(code)&body=5")
      #expect(result.status == code && result.text == "xxxxx" && result["Status"] == nil)
    }
    let moved = try await php.curl("/status.php?code=302")
    #expect(moved.status == 302 && moved["Location"]?.hasSuffix("/elsewhere") == true)
    for code in [204, 304] {
      let result = try await php.curl("/status.php?code=\(code)&body=5")
      #expect(result.status == code && result.body.isEmpty && result.exit == 0)
    }
    let head = try await php.curl("/status.php?code=200&body=50000", ["-I"])
    #expect(head.status == 200 && head.exit == 0)
  }

  @Test func `serve one request after another on kept connections, and others when a process has gone`() async throws {
    let scene = try Scene.ofTest(), php = try await PHP(scene, "fastcgi_keep_conn on;", group: "keepalive 8;")
    var processes: Set<String> = []
    for _ in 0..<20 { processes.insert(try await php.curl("/echo.php")["X-Pid"] ?? "") }
    // Each worker of the daemon keeps a connection, and a process of php-fpm serves one.
    #expect(processes.count <= 2)
    for process in processes.compactMap({ Int32($0) }) { kill(process, SIGKILL) }
    for _ in 0..<4 {
      let result = try await php.curl("/echo.php")
      #expect(result.status == 200 && !processes.contains(result["X-Pid"] ?? ""))
    }
  }

  @Test(arguments: ["", "fastcgi_keep_conn on;"])
  func `that are slow send what they have`(line: String) async throws {
    let scene = try Scene.ofTest(), php = try await PHP(scene, line + " fastcgi_buffering off;", group: "keepalive 8;")
    let result = try await php.curl("/slow.php")
    #expect(result.text == "0\n1\n2\n3\n4\n" && result.exit == 0)
  }

  @Test func `have what they say in the error log`() async throws {
    let scene = try Scene.ofTest(), php = try await PHP(scene)
    let result = try await php.curl("/flood.php")
    #expect(result.text == "over")
    let line = try await php.daemon.logged("FastCGI sent in stderr: \"PHP message: line 0 of many")
    #expect(line.contains("PHP message: line 1 of many"))
    _ = try await php.curl("/fatal.php")
    let short = try await php.daemon.logged("PHP Fatal thing")
    #expect(
      short.contains("while reading response header from upstream") && short.contains("upstream: \"fastcgi://127"))
    let lines = php.daemon.errorLog.split(separator: "\n").filter { $0.contains("FastCGI sent") }
    #expect(lines.count <= 101)
  }

  @Test func `fail by what fastcgi_catch_stderr names`() async throws {
    let scene = try Scene.ofTest(), php = try await PHP(scene, "fastcgi_catch_stderr \"PHP Fatal\";")
    #expect(try await php.curl("/fatal.php").status == 502)
    #expect(try await php.curl("/echo.php").status == 200)
  }

  @Test func `that die in the middle cut the response, and others are served`() async throws {
    let scene = try Scene.ofTest(), php = try await PHP(scene)
    let cut = try await php.curl("/dies.php")
    #expect(cut.exit == 18 || cut.exit == 92)
    try await php.daemon.logged("while reading upstream, client: ")
    #expect(try await php.curl("/dies-at-once.php").status == 502)
    #expect(try await php.curl("/echo.php").status == 200)
  }

  @Test func `get a parameter block at its limits, and none above`() async throws {
    let scene = try Scene.ofTest()
    let long = String(repeating: "v", count: 60_000)
    let php = try await PHP(
      scene, "fastcgi_param LONG \"\(long)\"; fastcgi_param EMPTY \"\"; fastcgi_param GONE \"\" if_not_empty;",
      http: "large_client_header_buffers 4 64k;")
    let echo = try await php.echo("/echo.php", ["-H", "X-Long: \(String(repeating: "f", count: 60_000))"])
    #expect(echo["LONG"] == long && echo["EMPTY"] == "" && echo["GONE"] == nil)
    #expect(echo["HTTP_X_LONG"]?.utf8.count == 60_000)
  }

  @Test func `that are not there are not found, whatever follows their names`() async throws {
    let scene = try Scene.ofTest(), php = try await PHP(scene)
    try scene.write("photo.jpg", text: "<?php echo 'pwned';")
    for path in ["/photo.jpg/x.php", "/none.php"] { #expect(try await php.curl(path).status == 404) }
  }

  @Test(.lastsMinutes, arguments: ["on", "off"])
  func `take a large upload without its size in memory`(buffering: String) async throws {
    let scene = try Scene.ofTest()
    let php = try await PHP(scene, "fastcgi_request_buffering \(buffering); fastcgi_read_timeout 300s;")
    let isFull = PeerProxy.isFull, size = isFull ? 1 << 30 : 1 << 27, file = scene.path("upload")
    let made = try await scene.run("truncate", ["-s", "\(size)", file])
    #expect(made.status == 0)
    let before = php.daemon.memory("VmHWM") ?? 0
    let result = try await php.curl("/echo.php", ["--max-time", "300", "-T", file, "-H", "Expect:"])
    let echo = try JSONDecoder().decode(Echo.self, from: Data(result.body))
    // Those of so many zeros.
    let digest =
      isFull
      ? "49bc20df15e412a64472421e13fe86ff1c5165e18b2afccf160d4dc19fe68a14"
      : "254bcc3fc4f27172636df4bf32de9f107f620d559b20d760197e452b97453917"
    #expect(echo.count == size && echo.sha == digest)
    #expect((php.daemon.memory("VmHWM") ?? .max) - before < 64 * 1024)
  }

  @Test func `send 256 MiB to a client without its size in memory`() async throws {
    let scene = try Scene.ofTest(), php = try await PHP(scene)
    let before = php.daemon.memory("VmHWM") ?? 0
    let result = try await php.curl("/large.php")
    #expect(result.body.count == 256 << 20 && result.body.prefix(65_536).allSatisfy { $0 == 65 })
    #expect((php.daemon.memory("VmHWM") ?? .max) - before < 64 * 1024)
  }
}

@Suite(.staged, .enabled(if: ProgramServer.fcgiwrap != nil, "fcgiwrap is not installed"))
struct `Programs behind fcgiwrap` {
  @Test func `say the status, and their standard error goes to the log`() async throws {
    let scene = try Scene.ofTest(), port = try scene.port(), upstream = try scene.port()
    let script = try scene.write(
      "program",
      text: """
        #!/bin/sh
        echo "a warning" >&2
        printf 'Status: 418 Teapot\\r\\nContent-Type: text/plain\\r\\n\\r\\n'
        echo "$REQUEST_METHOD $QUERY_STRING"; cat
        """)
    try FileManager.default.setAttributes([.posixPermissions: 0o755], ofItemAtPath: script)
    try await ProgramServer.fcgiwrap(scene, port: upstream)
    let daemon = try await Sallyport.serve(
      scene,
      """
      server { listen 127.0.0.1:\(port);
        location / { fastcgi_pass 127.0.0.1:\(upstream); fastcgi_param SCRIPT_FILENAME \(script);
          fastcgi_param REQUEST_METHOD $request_method; fastcgi_param QUERY_STRING $query_string;
          fastcgi_param CONTENT_LENGTH $content_length; }
      }
      """)
    let result = try await scene.curl(["http://127.0.0.1:\(port)/?q"], input: Array("hello".utf8))
    #expect(result.status == 418 && result.text == "POST q\nhello")
    try await daemon.logged("FastCGI sent in stderr: \"a warning\"")
  }
}
