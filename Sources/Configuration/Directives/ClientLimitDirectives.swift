/// Limits of what all clients together may take. nginx has none of them.
let clientLimitDirectives: [DirectiveEntry] = [
  .local(
    "client_queue_timeout", .http, .milliseconds, "5s",
    "How long new clients wait in the kernel's queue (`listen … backlog=`) while `worker_connections` are used up and no"
      + " connection can be ended for them. When no place has become free for this time, sallyport refuses new clients"
      + " until one does. 0 refuses them at once, as nginx does.")
]
