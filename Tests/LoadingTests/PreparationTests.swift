@testable import Loading
import ConfigurationSupport
import Traffic
import Forward
import Features
import Configuration
import Crypto
import Foundation
import Observability
import TestSupport
import Testing
import Transport
import Upstream

@Suite struct PreparationTests {
  private func prepare(_ scene: Scene, _ text: String) throws -> Result<Preparation, Refusal> {
    let settings = try scene.settings(text)
    return Result { () throws(Refusal) in
      try Preparation(settings, after: [], number: 7, logs: LogFiles(), sharing: SharedState(features: Features.all))
    }
  }

  @Test func `logs, material and names are all tried, and all faults told`() throws {
    try withScene { scene in
      let outcome = try prepare(
        scene,
        """
        error_log nowhere/error.log;
        events {}
        http {
          access_log nowhere/access.log;
          upstream u { server 127.0.0.1:1;
            server no-such-host.invalid:2; }
          server { listen 1 ssl; ssl_certificate missing.pem; ssl_certificate_key missing.key;
            location / { proxy_pass http://u; } }
        }
        """)
      guard case .failure(let refusal) = outcome else {
        Issue.record("it was taken")
        return
      }
      let told = refusal.diagnostics.map { $0.short(in: scene) }
      try #require(told.count == 4, "\(told)")
      #expect(told[0].hasPrefix("1: error: can't open the log file nowhere/error.log: No such file or directory"))
      #expect(told[1].hasPrefix("4: error: can't open the log file nowhere/access.log"))
      #expect(told[2].hasPrefix("7: error: \"missing.pem\": cannot be opened"))
      #expect(told[3] == "6: error: host not found in upstream \"no-such-host.invalid:2\"")
    }
  }

  @Test func `a generation has a log for every location, and every address of a name`() throws {
    try withScene { scene in
      let preparation = try prepare(
        scene,
        """
        error_log main.log;
        events {}
        http {
          access_log access.log;
          upstream u { server 127.0.0.1:1 weight=3; server localhost:2; }
          server { listen 1; location / { error_log own.log info; proxy_pass http://u; } }
        }
        """
      ).get()
      let generation = preparation.generation
      #expect(generation.number == 7)
      #expect(generation.errorLog.threshold == .error)
      for location in generation.http.servers.flatMap({ $0.root.withNested }) {
        #expect(generation.errorLogs[location.errorLogs] != nil)
        #expect(location.accessLogs.allSatisfy { generation.accessLogs[$0.destination] != nil })
      }
      let servers = try #require(generation.groups.first?.servers)
      #expect(servers.first?.address == .ipv4(address: 0x7F00_0001, port: 1))
      #expect(servers.first?.settings.weight == 3)
      #expect(servers.dropFirst().allSatisfy { $0.address.port == 2 } && servers.count >= 2)
      #expect(scene.bytes("own.log").isEmpty)
    }
  }

  @Test func `what a reload can't change is told`() {
    var changed = MainSettings()
    changed.workers = .fixed(9)
    changed.pidFile = "/other"
    let told = RestartOnly.differences(from: MainSettings(), to: changed)
    #expect(told.map(\.severity) == [.warning, .warning])
    #expect(told.map(\.message).joined().contains("worker_processes"))
    #expect(RestartOnly.differences(from: changed, to: changed).isEmpty)
  }

  @Test func `each damaged state is kept under a name of its own`() throws {
    try withScene { scene in
      for (name, text) in [("pairs.damaged", "one"), ("pairs.damaged.2", "two")] {
        let path = try scene.write("pairs", text: text)
        #expect(try NewFile.setAside(path) == scene.path(name) && scene.text(name) == text)
        #expect(!FileManager.default.fileExists(atPath: path))
      }
    }
  }
}
