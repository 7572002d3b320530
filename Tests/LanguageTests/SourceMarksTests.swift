import Testing

@testable import Language

@Suite struct `What serves, beside what the files say` {
  private func files(_ texts: (String, String)...) -> [(path: String, bytes: [UInt8])] {
    texts.map { ($0.0, Array($0.1.utf8)) }
  }

  private let served = "http {\n  deny all;\n}\n"

  @Test func `comments and blanks are no difference, whatever the main file is called`() {
    let marks = SourceMarks(files(("/etc/s/a.conf", served), ("/etc/s/conf.d/b.conf", "x;")))
    let now = files(("a.conf", "# new\n\n\thttp {\r\n deny all;\n }"), ("conf.d/b.conf", " x; \n"))
    #expect(marks.differences(from: now).isEmpty)
    #expect(marks.differences(from: []).isEmpty && SourceMarks().differences(from: now).isEmpty)
  }

  @Test func `a line that is new, one that is gone and another order have their places`() {
    let marks = SourceMarks(files(("a.conf", served)))
    func told(_ text: String) -> [String] { marks.differences(from: files(("a.conf", text))) }
    #expect(told("http {\n  deny all;\n  allow all;\n  x;\n}\ny;\n") == ["a.conf:3-4, 6"])
    #expect(told("http {\n  deny 10.0.0.0/8;\n}\n") == ["a.conf:2 (1 line that serves is no longer there)"])
    #expect(told("") == ["a.conf (3 lines that serve are no longer there)"])
    #expect(told("deny all;\nhttp {\n}\n") == ["a.conf has its lines in another order"])
    #expect(told(served + String(repeating: "a;\n\n", count: 9)) == ["a.conf:4, 6, 8, 10, 12, 14, …"])
  }

  @Test func `files that came and went are named`() {
    let marks = SourceMarks(files(("/e/a.conf", "x;"), ("/e/d/1.conf", "y;"), ("/other/2.conf", "z;")))
    let now = files(("/e/a.conf", "x;"), ("/e/d/3.conf", "y;"), ("/other/2.conf", "z;"))
    #expect(marks.differences(from: now) == ["/e/d/3.conf is new", "/e/d/1.conf is gone"])
  }

  @Test func `what a parser opens is recorded once and in order, and a fault isn't`() throws {
    let recorder = SourceRecorder()
    let source = recorder.recording(
      SourceFiles(
        read: { path, _ in path == "no" ? .failure(.init(reason: "x")) : .success(Array(path.utf8)) },
        expand: { .success([$0]) }))
    for path in ["b", "a", "no", "b"] { _ = source.read(path, 9) }
    _ = source.expand("/etc/conf.d/*.conf")
    #expect(recorder.files.map(\.path) == ["b", "a"] && recorder.folders == ["/etc/conf.d"])
  }
}
