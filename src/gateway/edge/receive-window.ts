import { once } from 'node:events'
import { connect } from 'node:net'
import { connect as connectTls } from 'node:tls'
import { deadline, systemClock } from '../../contracts/time.ts'
import { type CertificateFiles, createTlsApp } from './apps.ts'
import type { Uws, us_listen_socket } from './uws.ts'

/** A head of `UWS_ENVIRONMENT`'s size lies within it. */
export const WINDOW_BYTES = 32 * 1024
export const HEAD_END = Buffer.from('\r\n\r\n')
/** Size of a body of which single reads bring as much as reads can, so that most of the buffer is seen. */
const PROBE_BYTES = 4 * 1024 * 1024
const PROBE_MS = 2_000

/** The views that were opened, without TLS and with. */
const opened: Partial<Record<'plain' | 'tls', Promise<Uint8Array | null>>> = {}

/**
 * Opens a view of the memory that uWS reads into. Its parser takes bytes over 0x7f for negative numbers on x86-64 and
 * cuts them off the ends of header values like blanks, so that no call of the module shows them; here they are seen.
 *
 * The native code has one buffer for all connections of a thread and reads every segment to its beginning; it lives as
 * long as the thread (libusockets, `us_internal_loop_data_init`). The chunks of a body are views of it, and only
 * the object is detached after their callback: one that was transferred before still sees the same memory. Both builds
 * are so; where one is not, `null` tells. Bytes that TLS has decrypted are in a second buffer, of the same kind.
 *
 * @param files with TLS, by this certificate; undefined: without
 * @returns the beginning of that buffer, at least `WINDOW_BYTES`, the same in every call; null when it cannot be had
 */
export function openReceiveWindow(uws: Uws, files?: CertificateFiles): Promise<Uint8Array | null> {
  const kind = files === undefined ? 'plain' : 'tls'
  opened[kind] ??= probe(uws, files).catch(() => null)
  return opened[kind]
}

/** Sends a body to a server of its own and keeps a chunk of it. */
async function probe(uws: Uws, files?: CertificateFiles): Promise<Uint8Array | null> {
  const app = files === undefined ? uws.App() : createTlsApp(uws, files)
  let window: Uint8Array | null = null
  let isSeen = false
  const asked = Promise.withResolvers<void>()
  app.post('/*', (res) => {
    res.onAborted(() => {})
    res.onData((chunk, last) => {
      if (chunk.byteLength >= Math.max(WINDOW_BYTES, (window?.length ?? 0) + 1)) {
        window = new Uint8Array(chunk.transfer())
      }
      if (last) res.end()
    })
    asked.resolve()
  })
  app.get('/*', (res) => {
    isSeen = window !== null && Buffer.from(window).indexOf(SEEN) === 0
    res.end()
  })
  const listening = await new Promise<us_listen_socket | false>((resolve) =>
    app.listen('127.0.0.1', 0, resolve),
  )
  if (listening === false) return null
  const address = { host: '127.0.0.1', port: uws.us_socket_local_port(listening) }
  // It is this very process that answers, whatever name the certificate is for.
  const client =
    files === undefined ? connect(address) : connectTls({ ...address, rejectUnauthorized: false })
  const signal = deadline(systemClock, PROBE_MS)
  try {
    await once(client, files === undefined ? 'connect' : 'secureConnect', { signal })
    client.write(`POST / HTTP/1.1\r\nHost: a\r\nContent-Length: ${PROBE_BYTES}\r\n\r\n`)
    // A segment of its own: a body that comes with its head begins after it.
    await asked.promise
    client.write(Buffer.alloc(PROBE_BYTES))
    await once(client, 'data', { signal })
    client.write(SEEN)
    await once(client, 'data', { signal })
    return isSeen ? window : null
  } finally {
    client.destroy()
    app.close()
  }
}

/** A head with bytes that the parser cuts off. */
const SEEN = Buffer.from('GET / HTTP/1.1\r\nhost: a\r\nseen: \xfca\xfc\r\n\r\n', 'latin1')
