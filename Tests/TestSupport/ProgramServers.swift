import Glibc

/// Real servers of programs in the scene's folder, for FastCGI, SCGI and uwsgi.
package enum ProgramServer {
  /// The first of these commands that is installed; nil: none is.
  private static func installed(_ paths: [String]) -> String? { paths.first { access($0, X_OK) == 0 } }

  /// Debian's name of php-fpm has the version of PHP.
  package static let fpm = installed((1...9).flatMap { minor in ["/usr/sbin/php-fpm8.\(minor)"] })
  package static let fcgiwrap = installed(["/usr/sbin/fcgiwrap", "/usr/bin/fcgiwrap"])
  package static let uwsgi = installed(["/usr/bin/uwsgi-core", "/usr/bin/uwsgi"]).flatMap { path in
    access("/usr/lib/uwsgi/plugins/python3_plugin.so", R_OK) == 0 ? path : nil
  }

  private static func start(
    _ scene: Scene, _ name: String, _ command: String, _ arguments: [String], port: UInt16
  ) async throws -> ChildProcess {
    let process = try ChildProcess(
      command, arguments, in: scene.folder, output: scene.path("\(name).out"), errors: scene.path("\(name).err"))
    scene.atEnd { process.stop() }
    scene.onFailure(show: name) { scene.text("\(name).err") + scene.text("\(name).log") }
    try await until("\(name) to listen") {
      if let ending = process.ending {
        throw ToolFailed(description: "\(name) ended, \(ending): \(scene.text("\(name).err"))")
      }
      return (try? Wire.dial(port: port)) != nil
    }
    return process
  }

  /// php-fpm, which serves the scripts of the scene's folder.
  @discardableResult
  package static func fpm(_ scene: Scene, port: UInt16, processes: Int = 4) async throws -> ChildProcess {
    guard let fpm else { throw ToolFailed(description: "php-fpm is not installed") }
    // Root has to say that it means to.
    let who = geteuid() == 0 ? "user = root\ngroup = root" : ""
    let file = try scene.write(
      "php-fpm.conf",
      text: """
        [global]
        error_log = \(scene.path("php-fpm.log"))
        daemonize = no
        [www]
        \(who)
        listen = 127.0.0.1:\(port)
        pm = static
        pm.max_children = \(processes)
        php_admin_value[post_max_size] = 0
        php_admin_value[enable_post_data_reading] = 0
        php_admin_value[display_errors] = 0
        php_admin_value[log_errors] = 1
        php_admin_value[html_errors] = 0

        """)
    return try await start(
      scene, "php-fpm", fpm, ["-n", "-F", "-y", file] + (geteuid() == 0 ? ["-R"] : []), port: port)
  }

  /// fcgiwrap, which runs each script as a program of its own.
  package static func fcgiwrap(_ scene: Scene, port: UInt16) async throws {
    guard let fcgiwrap else { throw ToolFailed(description: "fcgiwrap is not installed") }
    _ = try await start(scene, "fcgiwrap", fcgiwrap, ["-f", "-s", "tcp:127.0.0.1:\(port)"], port: port)
  }

  /// uwsgi with a program in Python. `certificate`: that of TLS, with its key; nil: in clear.
  package static func uwsgi(
    _ scene: Scene, port: UInt16, _ program: String, certificate: (String, key: String)? = nil
  ) async throws {
    guard let uwsgi else { throw ToolFailed(description: "uwsgi is not installed") }
    let file = try scene.write("program.py", text: program)
    let socket = "127.0.0.1:\(port)"
    let place = certificate.map { ["--suwsgi-socket", "\(socket),\($0.0),\($0.key)"] } ?? ["--socket", socket]
    _ = try await start(
      scene, "uwsgi", uwsgi,
      ["--plugins", "python3", "--wsgi-file", file, "--buffer-size", "65535", "--need-app", "--master"] + place,
      port: port)
  }

  /// An SCGI server in Python, whose `serve(connection, parameters, body)` each request calls. `body`: the bytes that
  /// CONTENT_LENGTH announces, read when they are asked for.
  package static func scgi(_ scene: Scene, port: UInt16, _ program: String) async throws {
    let file = try scene.write("scgi.py", text: program + scgiSource)
    _ = try await start(scene, "scgi", "/usr/bin/python3", [file, "\(port)"], port: port)
  }

  private static let scgiSource = #"""

    import socket, sys, threading

    def handle(connection):
        with connection, connection.makefile("rb") as input:
            count = b""
            while (byte := input.read(1)) != b":":
                if not byte: return
                count += byte
            words = input.read(int(count)).split(b"\0")
            assert input.read(1) == b","
            names = [word.decode("latin-1") for word in words[:-1]]
            assert names[0] == "CONTENT_LENGTH"
            parameters = dict(zip(names[::2], names[1::2]))
            serve(connection, parameters, lambda: input.read(int(parameters["CONTENT_LENGTH"])))

    listener = socket.create_server(("127.0.0.1", int(sys.argv[1])), backlog=128)
    while True:
        threading.Thread(target=handle, args=(listener.accept()[0],), daemon=True).start()
    """#
}
