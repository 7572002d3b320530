package import Observability
import Upstream

/// The page of `metrics` while the core and the features write it, each under the topic that its families belong to.
package struct MetricsWriter {
  /// A part of the page. A feature can have one of its own, which comes behind these.
  package struct Topic: Sendable, Hashable {
    private let name: String

    package init(_ name: String) { self.name = name }

    package static let process = Topic("process"), clients = Topic("clients"), upstreams = Topic("upstreams")
    package static let certificates = Topic("certificates"), faults = Topic("faults"), spans = Topic("spans")
    package static let stores = Topic("stores"), workload = Topic("workload")
    /// In the order of the page.
    fileprivate static let known = [process, clients, upstreams, certificates, faults, spans, stores, workload]
  }

  private var texts = Topic.known.map { (topic: $0, text: PrometheusText()) }

  package init() {}

  /// What the page has of a topic.
  package subscript(_ topic: Topic) -> PrometheusText {
    get { texts.first { $0.topic == topic }?.text ?? PrometheusText() }
    _modify {
      let place = texts.firstIndex { $0.topic == topic } ?? texts.count
      if place == texts.count { texts.append((topic, PrometheusText())) }
      yield &texts[place].text
    }
  }

  package var text: String { texts.map(\.text.text).joined() }
}

extension PrometheusText {
  package mutating func gauge(_ name: String, _ help: String, _ labels: KeyValuePairs<String, String>, _ value: Int64) {
    family(name, .gauge, help)
    sample(name, labels, value)
  }

  package mutating func counter(
    _ name: String, _ help: String, _ labels: KeyValuePairs<String, String>, _ value: UInt64
  ) {
    family(name, .counter, help)
    sample(name, labels, value)
  }
}

extension GroupName {
  /// A group of `http` has no `block`.
  package var labels: KeyValuePairs<String, String> {
    isOfStream ? ["upstream": text, "block": "stream"] : ["upstream": text]
  }
}

extension UpstreamSeries {
  package func labels() -> KeyValuePairs<String, String> {
    upstream.isOfStream
      ? ["upstream": upstream.text, "server": server, "block": "stream"]
      : ["upstream": upstream.text, "server": server]
  }

  package func labels(result: String) -> KeyValuePairs<String, String> {
    upstream.isOfStream
      ? ["upstream": upstream.text, "server": server, "result": result, "block": "stream"]
      : ["upstream": upstream.text, "server": server, "result": result]
  }
}
