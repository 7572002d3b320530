package import Observability
import Upstream

/// The page of `metrics` while the core and the features write it, each under the topic that its families belong to.
package struct MetricsWriter {
  /// In the order of the page.
  package enum Topic: Int, CaseIterable {
    case process, clients, upstreams, certificates, faults, spans, stores, workload
  }

  private var texts = Topic.allCases.map { _ in PrometheusText() }

  package init() {}

  /// What the page has of a topic.
  package subscript(_ topic: Topic) -> PrometheusText {
    get { texts[topic.rawValue] }
    _modify { yield &texts[topic.rawValue] }
  }

  package var text: String { texts.map(\.text).joined() }
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
