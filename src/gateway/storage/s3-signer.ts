import type { S3Client } from '@aws-sdk/client-s3'
import type { Clock } from '../../contracts/time.ts'
import type { RequestHead } from '../outbound/request-head.ts'

/** The SDK's own measure: below it a clock is taken for right. */
const MAX_SKEW_MS = 240_000

const EMPTY_SHA256 = 'e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855'

interface Unsigned {
  readonly method: 'GET' | 'PUT'
  readonly key: string
  readonly query?: Readonly<Record<string, string>>
  readonly headers: Readonly<Record<string, string>>
}

/** Signs requests for objects of one bucket by the SDK's signer, with its credentials. */
export class S3Signer {
  readonly #client: S3Client
  readonly #endpoint: URL
  readonly #folder: string
  readonly #clock: Clock
  #signer: ReturnType<S3Client['config']['signer']> | null = null

  /** @param client lends its signer, its credentials and its correction of this machine's clock */
  constructor(client: S3Client, endpoint: string, bucket: string, clock: Clock) {
    this.#client = client
    this.#endpoint = new URL(endpoint)
    this.#folder = `${this.#endpoint.pathname.replace(/\/$/, '')}/${bucket}`
    this.#clock = clock
  }

  /** The head of a request. Its `content-length`, which the signature covers, is written by the connection. */
  async sign({ method, key, query = {}, headers }: Unsigned): Promise<RequestHead> {
    const { config } = this.#client
    this.#signer ??= config.signer()
    const { protocol, hostname, host, origin } = this.#endpoint
    // The one character of a key that a signature takes only when it is escaped.
    const path = `${this.#folder}/${key.replace('=', '%3D')}`
    const sha256 = method === 'GET' ? EMPTY_SHA256 : 'UNSIGNED-PAYLOAD'
    const request = {
      method,
      protocol,
      hostname: hostname.replace(/^\[|\]$/g, ''),
      path,
      query: { ...query },
      headers: { host, 'x-amz-content-sha256': sha256, ...headers },
    }
    const signingDate = new Date(this.#clock.wallNow() + config.systemClockOffset)
    const signed = await (await this.#signer).sign(request, { signingDate })
    const pairs = new URLSearchParams(query)
    const target = pairs.size === 0 ? path : `${path}?${pairs}`
    let text = `${method} ${target} HTTP/1.1\r\n`
    for (const [name, value] of Object.entries(signed.headers))
      if (name !== 'content-length') text += `${name}: ${value}\r\n`
    return { origin, method, text, bytes: Buffer.from(text, 'latin1'), url: target }
  }

  /** Corrects the clock that requests are signed by, as the SDK does for its own. @param date header of an answer */
  learnTime(date = ''): void {
    const offset = Date.parse(date) - this.#clock.wallNow()
    const { config } = this.#client
    if (Math.abs(offset - config.systemClockOffset) > MAX_SKEW_MS) config.systemClockOffset = offset
  }
}
