import TestSupport

extension ScriptedUpstream {
  /// An upstream that answers each request when `go` is raised.
  static func holding(_ scene: Scene, until go: Flag) throws -> ScriptedUpstream {
    try ScriptedUpstream(scene) { wire, _ in
      try wire.serve { _ in
        go.wait()
        try wire.answer("held")
      }
    }
  }
}
