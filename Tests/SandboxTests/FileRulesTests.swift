import Sandbox
import Testing

/// A file system in memory: what each path leads to.
private func tree(_ states: [String: PathState]) -> (String) -> PathState? {
  { states[$0] }
}

private func folder(_ path: String) -> (String, PathState) { (path, PathState(real: path, isFolder: true)) }
private func file(_ path: String) -> (String, PathState) { (path, PathState(real: path, isFolder: false)) }

@Suite struct `Rules on files` {
  private let disk = tree(
    Dictionary(
      [
        folder("/"), folder("/etc/sallyport"), file("/etc/sallyport/server.key"), folder("/var/log"),
        file("/var/log/x.log"), folder("/srv/releases/1"), folder("/srv/releases"), folder("/srv"), folder("/dev"),
        file("/dev/null"), folder("/archive/a"), folder("/live/a"), folder("/var/lib"), file("/top.conf"),
        ("/srv/current", PathState(real: "/srv/releases/1", isFolder: true, isLink: true)),
        ("/live/a/cert.pem", PathState(real: "/archive/a/cert3.pem", isFolder: false, isLink: true)),
        ("/var/lib/x/bodies", PathState(real: "/var/lib", exists: false, isFolder: true)),
        ("/var/log/new.log", PathState(real: "/var/log", exists: false, isFolder: true)),
        ("/no/such", PathState(real: "/", exists: false, isFolder: true)),
      ], uniquingKeysWith: { first, _ in first }))

  @Test func `a file is granted by its folder, so that another may take its place`() {
    let rules = FileRules([FileNeed(.read, "/etc/sallyport/server.key")], look: disk)
    #expect(rules.access == ["/etc/sallyport": .read])
    #expect(rules.allows(.read, "/etc/sallyport/next.key"))
    #expect(!rules.allows(.read, "/etc/shadow") && !rules.allows(.append, "/etc/sallyport/server.key"))
  }

  @Test func `the folders that systemd makes for the service are granted, and none that holds more`() {
    let environment = [
      "STATE_DIRECTORY": "/var/lib:/var/tmp", "CACHE_DIRECTORY": "/var/cache", "LOGS_DIRECTORY": "/var/log",
      "RUNTIME_DIRECTORY": "/",
    ]
    var rules = FileRules()
    rules.grantSystem { environment[$0] }
    for folder in ["/var/lib", "/var/tmp", "/var/cache"] {
      #expect(rules.allows(.change, "\(folder)/x"), "\(folder)")
    }
    #expect(rules.allows(.append, "/var/log/x") && !rules.allows(.read, "/var/log/x"))
    #expect(!rules.allows(.read, "/var") && !rules.allows(.read, "/home"))
  }

  @Test func `of a link both folders are granted`() {
    let rules = FileRules([FileNeed(.read, "/live/a/cert.pem")], look: disk)
    #expect(rules.access == ["/live/a": .read, "/archive/a": .read])
  }

  @Test func `a served folder is granted, and beside a link what may become its target`() {
    #expect(FileRules([FileNeed(.read, "/srv/releases/1")], look: disk).access == ["/srv/releases/1": .read])
    let rules = FileRules([FileNeed(.read, "/srv/current")], look: disk)
    #expect(rules.allows(.read, "/srv/releases/2/index.html"))
  }

  @Test func `a log's folder may be written and not read`() {
    for path in ["/var/log/x.log", "/var/log/new.log"] {
      let rules = FileRules([FileNeed(.append, path)], look: disk)
      #expect(rules.allows(.append, path) && !rules.allows(.read, path), "\(path)")
    }
  }

  @Test func `of a folder that is too wide only the file is granted`() {
    let rules = FileRules([FileNeed(.append, "/dev/null"), FileNeed(.read, "/top.conf")], look: disk)
    #expect(Set(rules.access.keys) == ["/dev/null", "/top.conf"])
    #expect(!rules.allows(.append, "/dev/sda") && !rules.allows(.read, "/etc/shadow"))
    #expect(FileRules([FileNeed(.read, "/no/such"), FileNeed(.change, "/no/such")], look: disk).access.isEmpty)
  }

  @Test func `a folder that will be made is granted by the one above`() {
    let rules = FileRules([FileNeed(.change, "/var/lib/x/bodies")], look: disk)
    #expect(rules.allows(.change, "/var/lib/x/bodies/b1"))
  }

  @Test func `what a later configuration names and these rules lack is told once`() {
    let old = FileRules(
      [FileNeed(.read, "/etc/sallyport/server.key"), FileNeed(.append, "/var/log/x.log")], look: disk)
    #expect(old.unmet(of: old).isEmpty)
    let new = FileRules(
      [
        FileNeed(.read, "/etc/sallyport/server.key"), FileNeed(.read, "/live/a/cert.pem"),
        FileNeed(.read, "/var/log/x.log"),
      ], look: disk)
    #expect(old.unmet(of: new).map(\.path) == ["/live/a/cert.pem", "/var/log/x.log"])
    #expect(new.unmet(of: old).map(\.use) == [.append])
  }
}
