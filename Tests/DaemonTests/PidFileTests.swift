import ConfigurationSupport
import Glibc
import TestSupport
import Testing

@testable import Daemon

@Suite struct PidFileTests {
  @Test func `it names the process and is gone at the end`() throws {
    try withScene { scene in
      let file = try PidFile(opening: scene.path("pid"))
      try file.write()
      #expect(scene.text("pid") == "\(getpid())\n")
      file.remove()
      #expect(access(scene.path("pid"), F_OK) != 0)
    }
  }

  @Test func `a stale one is overwritten, but not before it is written`() throws {
    try withScene { scene in
      try scene.write("pid", text: "123456789 and more\n")
      let file = try PidFile(opening: scene.path("pid"))
      #expect(scene.text("pid") == "123456789 and more\n")
      try file.write()
      #expect(scene.text("pid") == "\(getpid())\n")
    }
  }

  @Test func `a start that failed leaves another process's file, and none of its own`() throws {
    try withScene { scene in
      try scene.write("pid", text: "42\n")
      try PidFile(opening: scene.path("pid")).abandon()
      #expect(scene.text("pid") == "42\n")
      try PidFile(opening: scene.path("fresh")).abandon()
      #expect(access(scene.path("fresh"), F_OK) != 0)
    }
  }

  @Test func `a symbolic link is not followed`() throws {
    try withScene { scene in
      try scene.write("precious", text: "keep")
      #expect(symlink(scene.path("precious"), scene.path("pid")) == 0)
      #expect(throws: PidFileError.self) { try PidFile(opening: scene.path("pid")) }
      #expect(scene.text("precious") == "keep")
    }
  }

  @Test func `a folder, a missing folder and a FIFO are told by name`() throws {
    try withScene { scene in
      let folder = try scene.makeFolder("folder")
      #expect(mkfifo(scene.path("fifo"), 0o600) == 0)
      for path in [folder, scene.path("nowhere/pid"), scene.path("fifo")] {
        let error = #expect(throws: PidFileError.self) { try PidFile(opening: path) }
        #expect(error?.description.contains(path) == true)
      }
    }
  }

  @Test func `the file of a process that came after us stays`() throws {
    try withScene { scene in
      let file = try PidFile(opening: scene.path("pid"))
      try file.write()
      unlink(scene.path("pid"))
      try scene.write("pid", text: "77\n")
      file.remove()
      #expect(scene.text("pid") == "77\n")
    }
  }
}
