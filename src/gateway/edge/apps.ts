import type { HttpResponse, TemplatedApp, Uws, us_listen_socket } from './uws.ts'

/** Paths of a certificate, which those up to its authority follow, and of its private key: PEM, no passphrase. */
export interface CertificateFiles {
  readonly certFile: string
  readonly keyFile: string
}

/**
 * Has an app serve something: routes, or a pattern of WebSockets.
 *
 * @param encrypted whether the connections of the app are
 * @param left      to be called when a WebSocket closes: uWS counts them as they come in, and not as they go
 */
export type Registration = (app: TemplatedApp, encrypted: boolean, left: () => void) => void

/** Address to listen on. */
interface Address {
  readonly host: string
  /** 0 picks a free one. */
  readonly port: number
  /** Other processes may listen on it, too. */
  readonly shared: boolean
}

export interface Listener {
  readonly port: number
  /** Refuses new connections. Idempotent. */
  stop(): void
}

export interface TlsListener extends Listener {
  /**
   * Gives the certificate that the files hold now to connections that are made from now on; open ones keep theirs.
   *
   * @throws Error when uWS cannot use the files; the certificate in use stays then
   */
  renew(files: CertificateFiles): void
}

/**
 * Cipher suites of TLS 1.2, all with forward secrecy and authenticated encryption, as Mozilla's intermediate
 * configuration lists them. Those of TLS 1.3 are not configurable, and older versions are off in uSockets.
 */
const CIPHERS = ['ECDSA', 'RSA']
  .flatMap((key) =>
    ['AES128-GCM-SHA256', 'AES256-GCM-SHA384', 'CHACHA20-POLY1305'].map((suite) => [key, suite]),
  )
  .map(([key, suite]) => `ECDHE-${key}-${suite}`)
  .join(':')

/**
 * Open connections that a server has at most; more are closed as they come. Without it callers could take the last file
 * descriptor of the process: uSockets then asks the kernel for connections without a pause, which takes a whole core,
 * and no provider can be reached, which looks like their failure.
 */
export interface ConnectionBound {
  readonly most: number
  onRefused(): void
}

/** An app that serves, and its open connections. */
interface Served {
  readonly app: TemplatedApp
  readonly encrypted: boolean
  connections: number
  /** Another app has taken its place: it gets no more connections. */
  replaced: boolean
}

/**
 * Apps of uWS that together are one server: one without TLS, and one for each certificate. All serve the same.
 *
 * uSockets reads a certificate when an app is made and never again, so that a renewed one takes another app. The port
 * is not opened anew for it: to close the old listener would reset what the kernel has accepted and that has not. It
 * belongs to an app that serves nothing, and hands each connection to the app of the certificate in force. That is
 * meant for apps of several threads, and works within one.
 *
 * uWS frees no app. The remains of a renewed certificate were measured at 43 KiB, 19 of them V8's.
 */
export class Apps {
  readonly #uws: Uws
  readonly #registrations: Registration[] = []
  /** A replaced app is one of them only as long as it has connections. */
  readonly #served = new Set<Served>()
  readonly #acceptors: TemplatedApp[] = []
  readonly #bound: ConnectionBound
  #connections = 0

  constructor(uws: Uws, bound: ConnectionBound) {
    this.#uws = uws
    this.#bound = bound
  }

  /** Open connections of all. */
  get connections(): number {
    return this.#connections
  }

  /** Apps that may still get requests: one for each port, and one for each older certificate that is still in use. */
  get size(): number {
    return this.#served.size
  }

  /** Has every app serve something, also those that renewed certificates bring. */
  register(registration: Registration): void {
    this.#registrations.push(registration)
    for (const served of this.#served) this.#apply(registration, served)
  }

  /** @throws Error when the address cannot be listened on */
  async listen(address: Address): Promise<Listener> {
    const { app } = this.#serve(this.#uws.App(), false)
    return listenOn(this.#uws, app, address)
  }

  /** @throws Error when the address cannot be listened on, or uWS cannot use the files */
  async listenTls(address: Address, files: CertificateFiles): Promise<TlsListener> {
    const uws = this.#uws
    let current = this.#serve(createTlsApp(uws, files), true)
    const acceptor = uws.SSLApp({})
    this.#acceptors.push(acceptor)
    acceptor.addChildAppDescriptor(current.app.getDescriptor())
    const renew = (renewed: CertificateFiles): void => {
      const last = current
      current = this.#serve(createTlsApp(uws, renewed), true)
      acceptor.addChildAppDescriptor(current.app.getDescriptor())
      acceptor.removeChildAppDescriptor(last.app.getDescriptor())
      last.replaced = true
      this.#count(last, 0)
    }
    return { ...(await listenOn(uws, acceptor, address)), renew }
  }

  /** Cuts every connection, and stops listening. */
  close(): void {
    for (const acceptor of this.#acceptors) acceptor.close()
    for (const { app } of [...this.#served]) app.close()
  }

  #serve(app: TemplatedApp, encrypted: boolean): Served {
    const served: Served = { app, encrypted, connections: 0, replaced: false }
    const count = (connection: HttpResponse, change: number): void => {
      this.#count(served, change)
      if (change < 0 || this.#connections <= this.#bound.most) return
      connection.close()
      this.#bound.onRefused()
    }
    app.filter(count as Parameters<TemplatedApp['filter']>[0])
    for (const registration of this.#registrations) this.#apply(registration, served)
    this.#served.add(served)
    return served
  }

  #apply(registration: Registration, served: Served): void {
    registration(served.app, served.encrypted, () => this.#count(served, -1))
  }

  /** Counts connections. One may come after its app was replaced: it is handed over a turn after it was accepted. */
  #count(served: Served, change: number): void {
    this.#connections += change
    served.connections += change
    if (served.replaced && served.connections === 0) this.#served.delete(served)
    else this.#served.add(served)
  }
}

/** @throws Error when uWS cannot use the files; it does not say why */
export function createTlsApp(uws: Uws, { certFile, keyFile }: CertificateFiles): TemplatedApp {
  try {
    return uws.SSLApp({ cert_file_name: certFile, key_file_name: keyFile, ssl_ciphers: CIPHERS })
  } catch (cause) {
    throw new Error('uWebSockets.js cannot use the certificate and its key', { cause })
  }
}

/** uWS's listen options: with SO_REUSEPORT (which a free port never gets), or without. */
const LISTEN_SHARED = 0
const LISTEN_EXCLUSIVE = 1

function listenOn(uws: Uws, app: TemplatedApp, { host, port, shared }: Address): Promise<Listener> {
  return new Promise((resolve, reject) => {
    const option = shared ? LISTEN_SHARED : LISTEN_EXCLUSIVE
    app.listen(host, port, option, (socket) => {
      if (!socket) return reject(new Error(`cannot listen on ${host}:${port}`))
      let open: us_listen_socket | null = socket
      resolve({
        port: uws.us_socket_local_port(socket),
        stop() {
          if (open !== null) uws.us_listen_socket_close(open)
          open = null
        },
      })
    })
  })
}
