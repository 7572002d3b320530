import Language
import Observability
import Signature
import Traffic

/// The components that a line says a signature covers.
enum SignedComponents {
  /// `signs`: for requests to an upstream, which some components can't be of.
  static func read(_ words: some Sequence<Word>, signs: Bool, _ builder: inout SettingsBuilder) -> [Component] {
    var components: [Component] = []
    for word in words {
      let component: Component
      do throws(ComponentError) { component = try Component(parsing: word.text) } catch {
        builder.error(
          word.location, "invalid component \"\(word.text)\": \(error)",
          hint:
            "@method, @target-uri, @authority, @scheme, @request-target, @path, @query, '@query-param;name=\"x\"', or the name of a field in lower case"
        )
        continue
      }
      if components.contains(component) {
        builder.error(word.location, "the component \"\(word.text)\" occurs twice", hint: "remove one of the two")
      } else if signs, let fault = unsignable(component) {
        builder.error(word.location, fault, hint: "@authority covers the host")
      }
      components.append(component)
    }
    return components
  }

  private static let perConnection: Set = [
    "connection", "proxy-connection", "keep-alive", "te", "trailer", "transfer-encoding", "upgrade", "expect",
  ]

  /// Why a request for an upstream can't be signed over this component; nil if it can.
  private static func unsignable(_ component: Component) -> String? {
    guard let name = component.field.map({ String(decoding: $0, as: UTF8.self) }) else { return nil }
    if name == "host" { return "\"host\" is no field of every request: HTTP/2 has none" }
    if perConnection.contains(name) {
      return "\"\(name)\" belongs to one connection, so a signature can't cover it"
    }
    if name == "signature" || name == "signature-input" { return "a signature can't cover \"\(name)\" here" }
    return nil
  }
}
