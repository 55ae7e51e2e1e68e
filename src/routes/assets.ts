import { hash } from 'node:crypto'
import type { Exchange, Reply } from '../inbound/exchange.ts'
import { compress, takesGzip } from './gzip.ts'

/** Text or bytes that change with the version of the package only. */
export interface Asset {
  readonly type: string
  /** Reads or makes it; called once, when somebody asks first. */
  readonly load: () => Promise<string | Uint8Array>
  readonly headers?: Readonly<Record<string, string>>
}

interface Loaded {
  readonly etag: string
  readonly bytes: Uint8Array
  /** Made when a client that takes it asks first. */
  gzipped: Promise<Uint8Array> | null
}

/**
 * Answers an asset: nothing but its tag to a client that has it already, compressed to one that takes gzip. Until
 * somebody asks for it, it takes neither time nor memory.
 */
export function serveAsset(asset: Asset): (exchange: Exchange) => Promise<Reply> {
  let loading: Promise<Loaded> | null = null
  return async (exchange) => {
    loading ??= loaded(asset)
    const one = await loading.catch((error: unknown) => {
      // The next one who asks may have more luck.
      loading = null
      throw error
    })
    const { etag, bytes } = one
    const common = {
      'content-type': asset.type,
      // The names of the files say nothing of their version, so each use asks whether it is still the same.
      'cache-control': 'no-cache',
      vary: 'accept-encoding',
      ...asset.headers,
    }
    const zips = takesGzip(exchange)
    // The two codings are different bytes, and a strong tag is of bytes.
    const tag = zips ? `"${etag}-gz"` : `"${etag}"`
    if (hasTag(exchange.headers['if-none-match'], tag))
      return { status: 304, headers: { ...common, etag: tag }, body: '' }
    if (!zips) return { status: 200, headers: { ...common, etag: tag }, body: bytes }
    one.gzipped ??= compress(bytes, { level: 9 })
    return {
      status: 200,
      headers: { ...common, etag: tag, 'content-encoding': 'gzip' },
      body: await one.gzipped,
    }
  }
}

async function loaded({ load }: Asset): Promise<Loaded> {
  const content = await load()
  const bytes = typeof content === 'string' ? Buffer.from(content) : content
  return { etag: hash('sha256', bytes).slice(0, 24), bytes, gzipped: null }
}

/** RFC 9110, section 13.1.2: tags are compared weakly, and a proxy that compressed may have made one weak. */
function hasTag(ifNoneMatch: string | undefined, tag: string): boolean {
  if (ifNoneMatch === undefined) return false
  if (ifNoneMatch.trim() === '*') return true
  return ifNoneMatch.split(',').some((one) => one.trim().replace(/^W\//, '') === tag)
}
