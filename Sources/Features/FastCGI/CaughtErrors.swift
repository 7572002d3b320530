import Forward
import Traffic

/// `fastcgi_catch_stderr` at a pass: a server that says one of these texts before its response has failed.
struct CaughtErrors: PassPart {
  private let texts: [String]

  init(_ texts: [String]) { self.texts = texts }

  func compile(_ parts: inout PassParts, _ makers: LiveMakers) { parts.requestHooks.append(Hook(texts)) }

  private final class Hook: RequestHook {
    private let texts: [[UInt8]]

    init(_ texts: [String]) { self.texts = texts.map { Array($0.utf8) } }

    override func accepts(_ text: UnsafeRawBufferPointer) -> Bool {
      !texts.contains { text.contains($0) }
    }
  }
}
