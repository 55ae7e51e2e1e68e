import type { IncomingHttpHeaders } from 'node:http'
import { type RequestOptions, request } from 'node:https'
import type { TLSSocket } from 'node:tls'

export interface TlsAnswer {
  readonly status: number | undefined
  readonly headers: IncomingHttpHeaders
  readonly body: Buffer
  /** SHA-256 of the certificate that was shown. */
  readonly shown: string
}

/**
 * Asks localhost over TLS, in a connection of its own unless the options name an agent.
 *
 * @param ca the authority that is trusted
 */
export function askTls(
  port: number,
  ca: string,
  path: string,
  options: RequestOptions = {},
  body?: Uint8Array,
): Promise<TlsAnswer> {
  return new Promise((resolve, reject) => {
    const to = { host: '127.0.0.1', servername: 'localhost', port, path, ca, agent: false as const }
    const outgoing = request({ ...to, ...options }, (incoming) => {
      const { statusCode: status, headers } = incoming
      const shown = (incoming.socket as TLSSocket).getPeerCertificate().fingerprint256
      const chunks: Buffer[] = []
      incoming.on('data', (chunk: Buffer) => chunks.push(chunk))
      incoming.on('error', reject)
      incoming.on('end', () => resolve({ status, headers, body: Buffer.concat(chunks), shown }))
    })
    outgoing.on('error', reject)
    outgoing.end(body)
  })
}
