import ArgumentParser
import Daemon
import Language
import Observability

/// Changes a running process by its API.
struct ControlCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "ctl",
    abstract: "See and change a running process: servers of upstream groups, clients, denied certificates, logs.",
    discussion: """
      The process needs a server that listens on a unix socket and has the API: `server { listen \
      unix:/run/sallyport/api.sock; location /api/ { api write=on; } }`. Run it as root or as the process's user. What it \
      changes is in memory: a reload keeps it, and a restart forgets it, but for denials and servers of a group with `state`.
      """,
    subcommands: [
      Servers.self, Change.self, Add.self, Remove.self, Clients.self, Cut.self, Deny.self, Allow.self, Denials.self,
      KeyValues.self, Errors.self, Level.self, Get.self,
    ]
  ).example("sallyport ctl servers")

  struct Place: ParsableArguments {
    @Option(help: "The unix socket that the server of the API listens on.")
    var socket = "/run/sallyport/api.sock"

    @Option(help: "The location of the API.")
    var location = "/api"

    @Option(help: "Seconds to wait, 1 to 60.")
    var timeout = 5

    func validate() throws {
      guard (1...60).contains(timeout) else { throw ValidationError("--timeout \(timeout): expected 1 to 60") }
      guard location.hasPrefix("/") else {
        throw ValidationError("--location \(location): expected a path such as /api")
      }
    }

    /// Runs a question, and prints its lines or the reason why there are none. A terminal would obey control characters
    /// in names, so lines show them; JSON stays as it is.
    /// `none`: what stderr gets in place of no lines.
    func ask(
      isJSON: Bool = false, none: String? = nil, _ question: (APIClient) throws(APIClient.Fault) -> [String]
    ) throws {
      do throws(APIClient.Fault) {
        let lines = try question(APIClient(socket: socket, location: location, seconds: timeout))
        for line in lines { print(isJSON ? line : LogEscape.visible(line)) }
        if lines.isEmpty, let none { LogFile.standardError.write(string: none + "\n") }
      } catch {
        throw ValidationFailure(LogEscape.visible(error.description))
      }
    }
  }

  /// Ends the command with a message and status 1.
  struct ValidationFailure: Error, CustomStringConvertible {
    let description: String
    init(_ description: String) { self.description = description }
  }

  struct Servers: ParsableCommand {
    static let configuration = CommandConfiguration(
      commandName: "servers", abstract: "Print a line for each server of the groups with `zone`."
    )
    .example("sallyport ctl servers app")
    @Argument(help: "A group; without it, all.") var group: String?
    @OptionGroup var place: Place
    func run() throws {
      try place.ask(none: "no upstream group with a zone has a server") {
        (api) throws(APIClient.Fault) in try api.servers(of: group)
      }
    }
  }

  struct Change: ParsableCommand {
    static let configuration = CommandConfiguration(
      commandName: "set", abstract: "Change a server of a group.",
      discussion:
        "Settings: down, up, drain, undrain, weight=N, max_conns=N, max_fails=N, fail_timeout=TIME, slow_start=TIME."
    ).example("sallyport ctl set app 10.0.0.7:8080 drain")
    @Argument(help: "The group.") var group: String
    @Argument(help: "The server: its address, or its number in the API.") var server: String
    @Argument(help: "What changes.") var settings: [String]
    @OptionGroup var place: Place

    func validate() throws {
      guard !settings.isEmpty else { throw ValidationError("expected a setting, such as down or weight=5") }
      _ = try ServerWords.json(settings)
    }

    func run() throws {
      let json = try ServerWords.json(settings)
      try place.ask { (api) throws(APIClient.Fault) in try api.change(server, of: group, json) }
    }
  }

  struct Add: ParsableCommand {
    static let configuration = CommandConfiguration(
      commandName: "add",
      abstract: "Add a server to a group.",
      discussion:
        "Settings: backup, down, weight=N, max_conns=N, max_fails=N, fail_timeout=TIME, slow_start=TIME, route=NAME."
    ).example("sallyport ctl add app 10.0.0.8:8080 weight=2")
    @Argument(help: "The group.") var group: String
    @Argument(help: "The server: an address and a port, or unix:PATH.") var server: String
    @Argument(help: "What it is like.") var settings: [String] = []
    @OptionGroup var place: Place

    func validate() throws { _ = try ServerWords.json(settings, adding: server) }

    func run() throws {
      let json = try ServerWords.json(settings, adding: server)
      try place.ask { (api) throws(APIClient.Fault) in try api.add(to: group, json) }
    }
  }

  struct Remove: ParsableCommand {
    static let configuration = CommandConfiguration(
      commandName: "remove",
      abstract: "Remove a server from a group, and print those that are left. What it serves goes on."
    ).example("sallyport ctl remove app 10.0.0.7:8080")
    @Argument(help: "The group.") var group: String
    @Argument(help: "The server: its address, or its number in the API.") var server: String
    @OptionGroup var place: Place
    func run() throws { try place.ask { (api) throws(APIClient.Fault) in try api.remove(server, from: group) } }
  }

  /// Settings of a server, as words of the command line.
  private enum ServerWords {
    /// As a body of the API. `server`: its address, if it is a new one.
    static func json(_ settings: [String], adding server: String? = nil) throws -> String {
      var json = JSONText()
      var fault: String?
      json.object { json in
        if let server { json.member("server", server) }
        for setting in settings {
          let parts = setting.split(separator: "=", maxSplits: 1).map(String.init)
          switch (parts.first, parts.count > 1 ? parts[1] : nil) {
          case ("down", nil): json.member("down", true)
          case ("up", nil): json.member("down", false)
          case ("drain", nil): json.member("drain", true)
          case ("undrain", nil): json.member("drain", false)
          case ("backup", nil) where server != nil: json.member("backup", true)
          case ("route", let value?) where server != nil: json.member("route", value)
          case ("weight", let value?), ("max_conns", let value?), ("max_fails", let value?):
            if let number = Quantity.number(value) { json.member(parts[0], number) } else { fault = setting }
          case ("fail_timeout", let value?), ("slow_start", let value?):
            if Quantity.seconds(value) != nil { json.member(parts[0], value) } else { fault = setting }
          default: fault = setting
          }
        }
      }
      if let fault {
        throw ValidationError(
          "\"\(fault)\": expected down, up, drain, undrain, weight=N, max_conns=N, max_fails=N, fail_timeout=TIME or slow_start=TIME"
        )
      }
      return json.text
    }
  }

  struct Clients: ParsableCommand {
    static let configuration = CommandConfiguration(
      commandName: "clients", abstract: "Print a line for each client that is connected."
    )
    .example("sallyport ctl clients --socket /run/sallyport/api.sock")
    @OptionGroup var place: Place
    func run() throws { try place.ask { (api) throws(APIClient.Fault) in try api.clients() } }
  }

  struct Cut: ParsableCommand {
    static let configuration = CommandConfiguration(
      commandName: "cut", abstract: "Cut the connections of a client now."
    ).example(
      "sallyport ctl cut --subject CN=alice")
    @Option(help: "Of its certificate: SHA-256, or SHA-1 as $ssl_client_fingerprint has it.") var fingerprint: String?
    @Option(help: "Of its certificate, as $ssl_client_serial has it.") var serial: String?
    @Option(help: "Of its certificate, as $ssl_client_s_dn has it.") var subject: String?
    @OptionGroup var place: Place

    func validate() throws {
      guard [fingerprint, serial, subject].compactMap({ $0 }).count == 1 else {
        throw ValidationError("expected one of --fingerprint, --serial and --subject")
      }
    }

    func run() throws {
      let (by, name) =
        fingerprint.map { ("fingerprint", $0) } ?? serial.map { ("serial", $0) } ?? ("subject", subject ?? "")
      try place.ask { (api) throws(APIClient.Fault) in ["\(try api.cut(by: by, name)) connections were cut"] }
    }
  }

  struct Deny: ParsableCommand {
    static let configuration = CommandConfiguration(
      commandName: "deny",
      abstract: "Deny a client's certificate for a time, at every server, and cut its connections."
    ).example("sallyport ctl deny 5d41402abc4b2a76b9719d911017c592aabbccdd 2h --note 'till 5 is stolen'")
    @Argument(help: "Of its certificate: SHA-256, or SHA-1.") var fingerprint: String
    @Argument(help: "How long, such as 10m; 30d at most.") var time: String
    @Option(help: "A line for whoever finds the denial later: why, and who knows more.") var note = ""
    @OptionGroup var place: Place

    func validate() throws {
      guard Quantity.seconds(time).map({ $0 > 0 }) == true else {
        throw ValidationError("\"\(time)\": expected a time such as 30s, 10m or 2h")
      }
    }

    func run() throws {
      let seconds = Quantity.seconds(time) ?? 0
      try place.ask { (api) throws(APIClient.Fault) in
        let cut = try api.deny(fingerprint, seconds: seconds, note: note)
        return ["denied for \(DurationWords.of(seconds: Int64(seconds))); \(cut) connections were cut"]
      }
    }
  }

  struct Allow: ParsableCommand {
    static let configuration = CommandConfiguration(commandName: "allow", abstract: "Take a denial back.").example(
      "sallyport ctl allow 5d41402abc4b2a76b9719d911017c592aabbccdd")
    @Argument(help: "The fingerprint that was denied.") var fingerprint: String
    @OptionGroup var place: Place
    func run() throws {
      try place.ask { (api) throws(APIClient.Fault) in
        try api.allow(fingerprint)
        return []
      }
    }
  }

  struct Denials: ParsableCommand {
    static let configuration = CommandConfiguration(
      commandName: "denials", abstract: "Print the certificates that are denied."
    ).example(
      "sallyport ctl denials")
    @OptionGroup var place: Place
    func run() throws { try place.ask(none: "none is denied") { (api) throws(APIClient.Fault) in try api.denials() } }
  }

  struct KeyValues: ParsableCommand {
    static let configuration = CommandConfiguration(
      commandName: "keyval", abstract: "Print the pairs of a keyval zone, or set or remove one.",
      discussion:
        "KEY alone prints its value; KEY VALUE sets it, and --remove removes it. A restart forgets it without `state`."
    ).example("sallyport ctl keyval tenants device-7 blue --expire 2h")
    @Argument(help: "The zone.") var zone: String
    @Argument(help: "The key.") var key: String?
    @Argument(help: "Its new value.") var value: String?
    @Option(help: "With a value: after how long it is forgotten, such as 2h.") var expire: String?
    @Flag(help: "Remove the key.") var remove = false
    @OptionGroup var place: Place

    func validate() throws {
      if remove, key == nil || value != nil { throw ValidationError("--remove takes the key alone") }
      guard let expire else { return }
      guard value != nil, let seconds = Quantity.seconds(expire), (1...86_400 * 365).contains(seconds) else {
        throw ValidationError("--expire \(expire): expected a value to set, and a time such as 30s, 10m or 2h")
      }
    }

    func run() throws {
      try place.ask { (api) throws(APIClient.Fault) in
        guard let key, remove || value != nil else { return try api.pairs(of: zone, key: key) }
        try api.setPair(key, to: value, seconds: expire.flatMap { Quantity.seconds($0) }, in: zone)
        return []
      }
    }
  }

  struct Errors: ParsableCommand {
    static let configuration = CommandConfiguration(
      commandName: "errors",
      abstract: "Print the last errors, at most 256 lines, as error logs got them."
    ).example("sallyport ctl errors")
    @OptionGroup var place: Place
    func run() throws {
      try place.ask(none: "no error log got a line at error or above since the start") {
        (api) throws(APIClient.Fault) in try api.errors()
      }
    }
  }

  struct Level: ParsableCommand {
    static let configuration = CommandConfiguration(
      commandName: "log-level", abstract: "Have error logs write more than `error_log` says, for a time.",
      discussion:
        "Without a level, prints the one that they have for a time. A reload keeps it, and a restart forgets it."
    ).example("sallyport ctl log-level info --for 10m")
    @Argument(help: "debug, info or notice.") var level: String?
    @Option(name: .customLong("for"), help: "How long, such as 10m; 24h at most.") var time: String?
    @Flag(help: "End it now.") var end = false
    @OptionGroup var place: Place

    func validate() throws {
      if let level, !LogLevelOverride.levels.contains(where: { $0.name == level }) {
        throw ValidationError("\"\(level)\": expected debug, info or notice")
      }
      guard (level == nil) == (time == nil), level == nil || !end else {
        throw ValidationError("expected a level and a time, such as info --for 10m, or --end alone, or nothing")
      }
      guard let time else { return }
      guard let seconds = Quantity.seconds(time), (1...LogLevelOverride.longest).contains(seconds) else {
        throw ValidationError("--for \(time): expected a time such as 30s, 10m or 2h; 24h at most")
      }
    }

    func run() throws {
      try place.ask(none: end ? nil : "error logs take what error_log says") { (api) throws(APIClient.Fault) in
        if end {
          try api.endLogLevel()
          return []
        }
        guard let level, let seconds = time.flatMap({ Quantity.seconds($0) }) else { return try api.logLevel() }
        return try api.setLogLevel(level, seconds: seconds)
      }
    }
  }

  struct Get: ParsableCommand {
    static let configuration = CommandConfiguration(commandName: "get", abstract: "Print a part of the API as JSON.")
      .example("sallyport ctl get http/upstreams")
    @Argument(help: "The path behind /9/, such as http/upstreams; without it, the names that there are.")
    var path = ""
    @OptionGroup var place: Place
    func run() throws {
      try place.ask(isJSON: true) { (api) throws(APIClient.Fault) in
        try api.ask("GET", path).split(separator: "\n").map(String.init)
      }
    }
  }
}
