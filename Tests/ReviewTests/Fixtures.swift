import Configuration
import ConfigurationSupport
import Daemon
import Observability
import Review
import Testing
import TestSupport
import Traffic

extension Check {
  /// For this machine, with all that a start tries.
  init(_ path: String) { self.init(path, .thisMachine(trial: DryStart.trial)) }
}

extension Scene {
  /// Lines of a server block whose clients are those of ca.pem, with the files of `serverFiles`.
  static let tls = "ssl_certificate server.pem; ssl_certificate_key server.key; ssl_client_certificate ca.pem;"

  /// What `sallyport check --offline` prints of a configuration in this folder.
  func check(_ text: String) throws -> (isValid: Bool, text: String) {
    let report = try Check(write("check.conf", text: Sallyport.withUser(text)), .files).report(isStrict: false)
    return (report.isValid, report.lines(isColoured: false).map { $0 + "\n" }.joined())
  }

  /// What `sallyport check --diff` finds between two configurations in this folder.
  func changes(from old: String, to new: String) throws -> [TrustChange] {
    let before = try write("old.conf", text: old), after = try write("new.conf", text: new)
    do { return try TrustDifference(from: before, to: after).changes } catch {
      Issue.record("\(error) in \(new)")
      return []
    }
  }

  /// Expects that a change is told of each server in this direction, by a sentence with these words, whose CONF is the new file. Returns what
  /// is told of the change, and of the change back, which must be told, too.
  func expectChange(
    _ direction: TrustChange.Direction, _ words: String, of servers: [String] = [""], from old: String, to new: String
  ) throws -> (there: [TrustChange], back: [TrustChange]) {
    let words = words.replacing("CONF", with: path("new.conf"))
    let there = try changes(from: old, to: new), back = try changes(from: new, to: old)
    for server in servers {
      #expect(
        there.contains { $0.direction == direction && $0.sentence.hasPrefix(server) && $0.sentence.contains(words) },
        "\(direction) \(server) \(words): \(there.map { "\($0.direction) \($0.sentence)" })")
    }
    #expect(!back.isEmpty, "\(words)")
    return (there, back)
  }
}
