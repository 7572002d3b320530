/// A page of metrics in Prometheus' text format 0.0.4, read strictly: what Prometheus or promtool would complain of is
/// an error.
package struct PrometheusPage {
  package struct Fault: Error, CustomStringConvertible {
    package let description: String
  }

  package struct Sample: Hashable {
    package let name: String
    package let labels: [String: String]
    package let value: Double
  }

  package private(set) var kinds: [String: String] = [:]
  package private(set) var samples: [Sample] = []

  package init(_ text: String) throws {
    guard text.hasSuffix("\n"), !text.hasSuffix("\n\n") else { throw Fault(description: "the last line has no end") }
    var family: String?
    var helped: String?
    var seen: Set<[String]> = []
    for line in text.dropLast().split(separator: "\n", omittingEmptySubsequences: false) {
      func fault(_ what: String) -> Fault { Fault(description: "\(what): \(line)") }
      let words = line.split(separator: " ", maxSplits: 3, omittingEmptySubsequences: false).map(String.init)
      if line.hasPrefix("#") {
        guard words.count == 4, Self.isName(words[2]) else { throw fault("malformed comment") }
        if words[1] == "HELP" {
          guard kinds[words[2]] == nil, helped != words[2] else { throw fault("a family twice") }
          guard words[3].hasSuffix("."), words[3].first?.isUppercase == true || words[3].first?.isNumber == true else {
            throw fault("help that is no sentence")
          }
          helped = words[2]
        } else if words[1] == "TYPE" {
          guard helped == words[2], ["counter", "gauge", "histogram"].contains(words[3]) else { throw fault("type") }
          guard (words[3] == "counter") == words[2].hasSuffix("_total") else { throw fault("_total is for counters") }
          kinds[words[2]] = words[3]
          family = words[2]
        } else {
          throw fault("neither HELP nor TYPE")
        }
        continue
      }
      let sample = try Self.sample(line, fault)
      guard let family, let kind = kinds[family] else { throw fault("a sample before its family") }
      let names = kind == "histogram" ? ["_bucket", "_sum", "_count"].map { family + $0 } : [family]
      guard names.contains(sample.name) else { throw fault("a sample outside its family") }
      guard kind != "counter" || sample.value >= 0 else { throw fault("a negative counter") }
      let key = [sample.name] + sample.labels.sorted { $0.key < $1.key }.flatMap { [$0.key, $0.value] }
      guard seen.insert(key).inserted else { throw fault("the same series twice") }
      samples.append(sample)
    }
    try checkHistograms()
  }

  /// Buckets rise, the last is +Inf, and it is the count.
  private func checkHistograms() throws {
    for name in kinds.filter({ $0.value == "histogram" }).keys {
      var series: [[String: String]: [(bound: Double, count: Double)]] = [:]
      for sample in samples where sample.name == name + "_bucket" {
        guard let le = sample.labels["le"], let bound = le == "+Inf" ? .infinity : Double(le) else {
          throw Fault(description: "\(name): a bucket without a bound")
        }
        series[sample.labels.filter { $0.key != "le" }, default: []].append((bound, sample.value))
      }
      for (labels, buckets) in series {
        let isRising = zip(buckets, buckets.dropFirst()).allSatisfy { $0.bound < $1.bound && $0.count <= $1.count }
        let count = samples.first { $0.name == name + "_count" && $0.labels == labels }?.value
        guard isRising, buckets.last?.bound == .infinity, buckets.last?.count == count else {
          throw Fault(description: "\(name)\(labels): wrong buckets")
        }
      }
    }
  }

  private static func sample(_ line: Substring, _ fault: (String) -> Fault) throws -> Sample {
    var rest = line[...]
    let name = String(rest.prefix { $0 != "{" && $0 != " " })
    guard isName(name) else { throw fault("a wrong name") }
    rest = rest.dropFirst(name.count)
    var labels: [String: String] = [:]
    if rest.first == "{" {
      rest = rest.dropFirst()
      while rest.first != "}" {
        let label = String(rest.prefix { $0 != "=" })
        guard isLabel(label), labels[label] == nil else { throw fault("a wrong label") }
        rest = rest.dropFirst(label.count + 1)
        guard rest.first == "\"" else { throw fault("a value without quotes") }
        rest = rest.dropFirst()
        var value = ""
        while let character = rest.first, character != "\"" {
          rest = rest.dropFirst()
          guard character == "\\" else {
            value.append(character)
            continue
          }
          switch rest.first {
          case "\\": value.append("\\")
          case "\"": value.append("\"")
          case "n": value.append("\n")
          default: throw fault("a wrong escape")
          }
          rest = rest.dropFirst()
        }
        guard rest.first == "\"" else { throw fault("a value without an end") }
        rest = rest.dropFirst()
        labels[label] = value
        if rest.first == "," { rest = rest.dropFirst() } else if rest.first != "}" { throw fault("labels") }
      }
      rest = rest.dropFirst()
    }
    guard rest.first == " ", let value = Double(rest.dropFirst()) else { throw fault("no number") }
    return Sample(name: name, labels: labels, value: value)
  }

  private static func isName(_ text: String) -> Bool { isWord(text, with: UInt8(ascii: ":")) }
  private static func isLabel(_ text: String) -> Bool { isWord(text, with: UInt8(ascii: "_")) }

  /// Whether these are letters, digits, `_` and this one, and no digit comes first. The text of a regular expression would be
  /// parsed again for each of thousands of names.
  private static func isWord(_ text: String, with other: UInt8) -> Bool {
    guard let first = text.utf8.first, !(48...57).contains(first) else { return false }
    return text.utf8.allSatisfy { byte in
      (48...57).contains(byte) || (97...122).contains(byte | 0x20) && byte < 0x80 || byte == 0x5F || byte == other
    }
  }

  /// The sum of the samples of a name that have these labels, among others; nil without one.
  package func value(_ name: String, _ labels: [String: String] = [:]) -> Double? {
    let found = samples.filter { sample in
      sample.name == name && labels.allSatisfy { sample.labels[$0.key] == $0.value }
    }
    return found.isEmpty ? nil : found.reduce(0) { $0 + $1.value }
  }
}
