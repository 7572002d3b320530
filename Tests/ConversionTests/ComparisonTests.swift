import ConfigurationSupport
import Language
import Testing

@testable import Conversion

@Suite struct `A comparison with the old program` {
  private static let place = StandIns.Place(folder: "/t", listeners: Array(5000..<5032), targets: Array(6000..<6064))

  private static func trial(_ sample: Sample, isOld: Bool = false) -> Trial {
    switch sample.peer {
    case .stunnel:
      StunnelConversion.trial(sample.text, file: "old", files: .none, in: place, log: isOld ? "old" : "new")
    case .ghostunnel:
      GhostunnelConversion.trial(GhostunnelConversion.words(sample.text, file: "old") ?? [], in: place)
    case .haproxy: HAProxyConversion.trial(sample.text, file: "old", files: .none, in: place)
    case .nginx: NginxConversion.trial(sample.text, file: "old", files: .none, in: place, isOld: isOld)
    }
  }

  private static func converted(_ trial: Trial, _ peer: Sample.Peer) -> Converted {
    guard peer == .ghostunnel else { return Sample.converted(trial.text, peer, file: Trial.file) }
    return GhostunnelConversion.convert(
      arguments: trial.text.split(separator: "\n").map(String.init), file: Trial.file)
  }

  @Test(arguments: Sample.all) func `changes addresses and files alone, on the same lines`(sample: Sample) {
    let trial = Self.trial(sample)
    guard trial.omitted.isEmpty else { return }
    let converted = Self.converted(trial, sample.peer)
    #expect(converted.hasServers == sample.converted.hasServers)
    let lines = Set(sample.converted.notes.filter { $0.outcome == .refused }.map(\.line.number))
    for note in converted.notes where note.outcome == .refused {
      #expect(lines.contains(trial.original(note).line.number), "\(note)")
    }
  }

  @Test(arguments: Sample.all) func `has the same stand-ins for both programs`(sample: Sample) {
    let old = Self.trial(sample, isOld: true).standIns, new = Self.trial(sample).standIns
    #expect(old.listeners == new.listeners)
    #expect(old.targets == new.targets)
    #expect(old.files == new.files)
  }

  @Test(arguments: Sample.all) func `is with servers behind that our own reader takes`(sample: Sample) {
    let text = Self.trial(sample).standIns.targetConfiguration(
      telling: ["x-client"], preamble: [], certificate: { "/t/target-\($0)" })
    guard text.contains("server {") else { return }
    #expect(LoadedText(text).errors == [], "\(text)")
  }

  // MARK: The plan

  private static let stunnel = Sample(
    peer: .stunnel, name: "a service",
    text: """
      [s]
      accept = 10.0.0.1:443
      connect = 10.0.0.2:80
      cert = c.pem
      verify = 2
      CAfile = ca.pem
      CRLfile = crl.pem
      checkHost = a.example
      """)

  private static func plan(_ sample: Sample) -> (plan: ComparisonPlan, converted: Converted, trial: Trial) {
    let trial = trial(sample)
    let converted = converted(trial, sample.peer)
    return (ComparisonPlan(converted, trial.standIns), converted, trial)
  }

  @Test func `asks for each certificate that a rule tells apart`() throws {
    let plan = Self.plan(Self.stunnel).plan
    let door = try #require(plan.doors.first)
    #expect(plan.doors.count == 1 && door.address == "10.0.0.1:443" && door.isTLS && !door.isHTTP)
    let file = 0
    #expect(
      Set(door.shown) == [
        .none, .valid(authorities: file, conditions: ["dns=a.example"]), .valid(authorities: file, conditions: []),
        .expired(authorities: file), .wrongPurpose(authorities: file), .revoked(authorities: file),
        .stranger(conditions: ["dns=a.example"]),
      ])
    #expect(Set(plan.tryings.map(\.version)) == Set(OfferedVersion.allCases))
    #expect(Set(plan.tryings).count == plan.tryings.count)
  }

  @Test func `asks for each host and path, and for paths as clients may write them`() {
    let plan = Self.plan(
      Sample(
        peer: .nginx, name: "",
        text: """
          events { } http { server { listen 443 ssl; server_name a.example; ssl_certificate c; ssl_certificate_key k;
          location /admin { return 403; } location / { proxy_pass http://127.0.0.1:1; } }
          server { listen 443 ssl; server_name b.example; ssl_certificate c; ssl_certificate_key k; return 404; } }
          """)
    ).plan
    #expect(plan.doors.map(\.address) == ["443"])
    #expect(plan.tryings.contains { $0.serverName == "a.example" && $0.host == "b.example" })
    for path in ["/admin", "//admin", "/%61dmin", "/x/../admin", "/"] {
      #expect(plan.tryings.contains { $0.path == path }, "\(path)")
    }
  }

  @Test func `asks no more of a listener than it can in a while`() {
    let locations = (0..<200).map { "location /\($0) { return 403; }" }.joined()
    let plan = Self.plan(
      Sample(peer: .nginx, name: "", text: "events { } http { server { listen 1; \(locations) } }")
    ).plan
    #expect(plan.tryings.count == ComparisonPlan.maximumOfDoor)
  }

  // MARK: What differs

  /// The comparison, with what each program shows for a trying.
  private static func comparison(
    _ sample: Sample, old: (Trying) -> Sight, ours: (Trying) -> Sight
  ) -> Comparison {
    let (plan, converted, trial) = plan(sample)
    return Comparison(
      plan, old: plan.tryings.map(old), ours: plan.tryings.map(ours), converted, trial, telling: sample.converted.notes)
  }

  private static let inside = Sight.reached(target: 0, fields: [:])
  private static let outside = Sight.refused("alert")

  @Test func `nothing differs where both do the same, in whatever words they refuse`() {
    let same = Self.comparison(
      Self.stunnel, old: { $0.shown.isBad ? .refused("a") : Self.inside },
      ours: { $0.shown.isBad ? .refused("b") : Self.inside })
    #expect(same.isSame && same.differences.isEmpty)
    #expect(same.report("stunnel", Self.trial(Self.stunnel)).hasSuffix("and nothing differs\n"))
  }

  @Test func `a difference is told once, with the line that makes it`() throws {
    let found = Self.comparison(
      Self.stunnel, old: { _ in Self.inside },
      ours: { if case .revoked = $0.shown { Self.outside } else { Self.inside } })
    let hole = try #require(found.differences.first { $0.kind == .hole })
    #expect(found.differences.count { $0.kind == .hole } == 1)
    #expect(hole.lines.contains { $0.line.text == "CRLfile = crl.pem" && $0.line.number == 7 && $0.line.file == "old" })
    let report = found.report("stunnel", Self.trial(Self.stunnel))
    #expect(report.contains("10.0.0.1:443: a hole of stunnel's, which sallyport doesn't have"))
    #expect(report.contains("old:7: CRLfile = crl.pem"))
    // Both let in the others that nobody may mean to let in.
    #expect(found.differences.contains { $0.kind == .shared })
  }

  @Test func `a listener where nobody gets in is a difference, whatever the old program does`() {
    let sample = Sample(peer: .stunnel, name: "", text: Self.stunnel.text + "\nlibwrap = yes")
    let found = Self.comparison(sample, old: { _ in Self.outside }, ours: { _ in Self.outside })
    #expect(!found.isSame && found.differences.isEmpty)
    let report = found.report("stunnel", Self.trial(sample))
    #expect(report.contains("10.0.0.1:443: sallyport lets nobody in\n    old:9: libwrap = yes\n"), "\(report)")
  }

  @Test func `a version is a cause of its own`() throws {
    let found = Self.comparison(
      Self.stunnel, old: { _ in Self.outside }, ours: { $0.version == .tls11 ? Self.inside : Self.outside })
    #expect(found.isWrong)
    #expect(found.differences.map(\.kind) == [.opened])
    #expect(found.differences.first?.example.version == .tls11)
    let newer = Self.comparison(
      Self.stunnel, old: { $0.version == .tls12 ? Self.inside : Self.outside },
      ours: { [.tls12, .tls13].contains($0.version) ? Self.inside : Self.outside })
    #expect(!newer.isWrong && newer.differences.contains { $0.kind == .newer })
  }

  @Test(arguments: [
    (Sight.refused("x"), Sight.reached(target: 0, fields: [:]), Comparison.Kind?.some(.opened)),
    (.answered(status: 421, location: nil), .reached(target: 0, fields: [:]), .answers),
    (.reached(target: 0, fields: [:]), .refused(""), .closed),
    (.reached(target: 0, fields: [:]), .reached(target: 1, fields: [:]), .elsewhere),
    (.reached(target: 0, fields: ["a": "b"]), .reached(target: 0, fields: [:]), .fields),
    (.reached(target: 0, fields: ["a": Comparison.forged]), .reached(target: 0, fields: [:]), .hole),
    (
      .reached(target: 0, fields: ["a": Comparison.forged, "b": ""]),
      .reached(target: 0, fields: ["a": Comparison.forged, "b": "c"]), .fields
    ),
    (.answered(status: 403, location: nil), .answered(status: 404, location: nil), .answers),
    (.refused("a"), .refused("b"), nil), (.answered(status: 400, location: nil), .refused(""), .answers),
  ])
  func `what differs has a kind`(old: Sight, ours: Sight, kind: Comparison.Kind?) {
    let door = Door(index: 0, address: "443", isHTTP: true, isTLS: true, paths: ["/"])
    #expect(Comparison.kind(Trying(door: 0), door, old, ours) == kind)
  }

  @Test func `a path that gets around a rule is a hole`() {
    let door = Door(index: 0, address: "443", isHTTP: true, isTLS: true, paths: ["/", "/admin"])
    var trying = Trying(door: 0)
    for (path, kind) in [("/admin", Comparison.Kind.closed), ("//admin", .hole)] {
      trying.path = path
      #expect(Comparison.kind(trying, door, Self.inside, .answered(status: 403, location: nil)) == kind)
    }
  }

  @Test func `an answer says which server it comes from`() {
    let text = "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nstand-in 3\nfield x-a=b=c\nfield x-d=\n"
    #expect(Sight(Array(text.utf8), reason: "") == .reached(target: 3, fields: ["x-a": "b=c", "x-d": ""]))
    #expect(Sight(Array("stand-in 0\n".utf8), reason: "late") == .reached(target: 0, fields: [:]))
    #expect(
      Sight(Array("HTTP/1.1 301 x\r\nLocation: https://a/\r\n\r\n".utf8), reason: "")
        == .answered(status: 301, location: "https://a/"))
    #expect(Sight([], reason: "alert") == .refused("alert"))
    #expect(Sight(Array("SSH-2.0".utf8), reason: "") == .refused("something that is no HTTP"))
  }
}
