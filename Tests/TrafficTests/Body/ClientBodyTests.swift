import ConfigurationSupport
@testable import Features
@testable import Forward
import Testing
@testable import Traffic

@Suite struct `Bodies of requests, as configured` {
  private func root(_ lines: String) -> LocationSettings? {
    LoadedText.location(lines).settings?.http.servers.first?.root.locations.first
  }

  @Test func `limits are read, and have defaults`() throws {
    let plain = try #require(root("")?.limits),
      said = try #require(
        root("client_max_body_size 0; client_body_timeout 7s; client_body_min_rate 5k; client_body_buffer_size 9;")?
          .limits)
    #expect(plain.maxBodySize == 1 << 20 && plain.bodyBufferSize == nil && plain.bodyTimeout == 60_000)
    #expect(plain.bodyMinRate == 100)
    #expect(said.maxBodySize == 0 && said.bodyBufferSize == 9 && said.bodyTimeout == 7000 && said.bodyMinRate == 5120)
  }

  @Test func `files are those of the configuration's folder`() throws {
    #expect(root("client_body_in_file_only off;")?.bodyFiles == nil && root("")?.bodyFiles == nil)
    let kept = try #require(root("client_body_in_file_only ON; client_body_temp_path bodies 1 2;")?.bodyFiles)
    #expect(kept.use == .kept && kept.folder?.path == "/etc/bodies" && kept.isForEachBody)
    let unnamed = try #require(root("client_body_temp_path /b/;")?.bodyFiles)
    #expect(unnamed.use == .unnamed && unnamed.folder?.path == "/b" && !unnamed.isForEachBody)
    #expect(
      LoadedText.location("client_body_temp_path /b 4;").errors == [
        "2:26 invalid path level \"4\" | 1, 2 or 3; levels have no effect"
      ])
  }
}
