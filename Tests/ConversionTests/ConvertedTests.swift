import Configuration
import ConfigurationSupport
import Language
import TestSupport
import Testing

@testable import Conversion

@Suite struct `Whatever is converted` {
  @Test func `there are ten samples of each kind`() {
    for peer in Sample.Peer.allCases { #expect(Sample.all.count { $0.peer == peer } == 10, "\(peer)") }
  }

  @Test(arguments: Sample.all) func `is taken by our own reader`(sample: Sample) {
    let converted = sample.converted
    #expect(converted.hasServers)
    #expect(LoadedText(converted.text).errors == [], "\(converted.text)")
  }

  @Test(arguments: Sample.all) func `has a note with a place for each line that changed`(sample: Sample) {
    let converted = sample.converted
    #expect(!converted.notes.isEmpty)
    for note in converted.notes {
      #expect(note.line.number > 0, "\(note)")
      #expect(note.outcome == .taken || !note.reason.isEmpty, "\(note)")
      guard note.outcome != .taken else { continue }
      #expect(converted.text.contains(note.reason), "\(note)")
    }
  }

  @Test(arguments: Sample.all) func `tells no pass phrase`(sample: Sample) {
    let converted = sample.converted
    #expect(!converted.text.contains("secret-word"))
    #expect(!converted.notes.contains { $0.description.contains("secret-word") })
  }

  @Test(arguments: Sample.all) func `is so again`(sample: Sample) {
    #expect(sample.converted == sample.converted)
  }

  @Test func `has pins that somebody asked for, and stays incomplete`() throws {
    let pin = "sha256//47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU="
    for peer in Sample.Peer.allCases where peer != .ghostunnel {
      let open = try #require(Sample.all.first { $0.peer == peer && !$0.converted.gaps.isEmpty }).converted
      let filled = open.filled { _ in pin }
      #expect(filled.text.contains("_ssl_pin \(pin);"), "\(filled.text)")
      #expect(!filled.text.contains("TO-BE-FILLED-IN"))
      #expect(!filled.isWhole)
      #expect(LoadedText(filled.text).errors == [])
      #expect(open.filled { _ in nil } == open)
    }
  }

  @Test(arguments: Sample.all) func `is taken by our own reader after mutations`(sample: Sample) {
    var random = SeededNumbers(seed: 46)
    for _ in 0..<8 {
      var bytes = Array(sample.text.utf8)
      for _ in 0..<Int.random(in: 1...4, using: &random) { Self.mutate(&bytes, &random) }
      let old = String(decoding: bytes, as: UTF8.self)
      let converted = Sample.converted(old, sample.peer)
      guard converted.hasServers else { continue }
      #expect(LoadedText(converted.text).errors == [], "\(old)\n\n\(converted.text)")
    }
  }

  private static func mutate(_ bytes: inout [UInt8], _ random: inout SeededNumbers) {
    guard !bytes.isEmpty else { return }
    let place = Int.random(in: bytes.indices, using: &random)
    var lines: [[UInt8]] { bytes.split(separator: 10, omittingEmptySubsequences: false).map(Array.init) }
    switch Int.random(in: 0...4, using: &random) {
    case 0: bytes[place] = UInt8.random(in: 0...255, using: &random)
    case 1: bytes.remove(at: place)
    case 2: bytes.insert("{}\"';$#\n*\\\0".utf8.randomElement(using: &random) ?? 0, at: place)
    case 3:
      var rest = lines
      rest.remove(at: Int.random(in: rest.indices, using: &random))
      bytes = Array(rest.joined(separator: [10]))
    default: bytes = Array((lines + [lines.randomElement(using: &random) ?? []]).joined(separator: [10]))
    }
  }

  /// Lines that make a file of any size.
  private static let long: [(Sample.Peer, String, @Sendable (Int) -> String)] = [
    (.stunnel, "client = no\n", { "[s\($0)]\naccept = \(1024 + $0)\nconnect = 80\ncert = a\nwhat = x\n" }),
    (
      .stunnel, "[a]\naccept = 1\ncert = a\nconnect = 1\nverifyChain = yes\nCAfile = c\n",
      { "checkHost = h\($0).example\n" }
    ),
    (
      .ghostunnel, "ghostunnel server --listen :1 --target unix:/x --cert a --key b --cacert c",
      { " --allow-cn c\($0)" }
    ),
    (
      .haproxy, "backend b\nmode http\nserver s a:1\nfrontend f\nmode http\nbind :80\ndefault_backend b\n",
      { "use_backend b if { path_beg /\($0) }\n" }
    ),
    (
      .haproxy, "backend b\nmode http\nserver s a:1\nfrontend f\nmode http\nbind :80\ndefault_backend b\n",
      { "use_backend b if { hdr(host) h\($0).example }\n" }
    ),
    (.nginx, "events { }\n", { "what\($0) x;\n" }),
  ]

  @Test(arguments: long.indices) func `has a length that grows as the file does`(index: Int) {
    let (peer, head, line) = Self.long[index]
    func lines(_ count: Int) -> Int {
      Sample.converted(head + (0..<count).map(line).joined(), peer).text.utf8.count { $0 == 10 }
    }
    let short = lines(50), long = lines(200)
    #expect(long <= 5 * short, "\(short) lines, \(long) lines")
  }
}
