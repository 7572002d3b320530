package import Language

/// log_subrequest: the access log gets the subrequests that the location answers.
package struct LogSubrequest: LocationFeature {
  package static let chapter = Chapter.subrequests
  private static let name = "log_subrequest"

  package static let directives: [DirectiveEntry] = [
    .value(
      name, .everyHTTP, .flag, "off",
      "Whether the access log gets a line for each subrequest that the location answers.",
      example: "log_subrequest on;", trust: .none)
  ]

  package static func read(_ level: Level, _ builder: inout SettingsBuilder) -> LogSubrequest? {
    level.scope.flag(name) == true ? LogSubrequest() : nil
  }

  package func compile(_ parts: inout LocationParts, _ makers: LiveMakers) { parts.objects.append(LoggedSubrequests()) }
}
