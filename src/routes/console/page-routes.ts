import { GatewayError } from '../../errors.ts'
import type { Exchange, Reply } from '../../inbound/exchange.ts'
import type { EdgeRoute } from '../../inbound/server.ts'
import { type AssetAnswer, IMMUTABLE, serveAsset } from '../assets.ts'
import { ASSETS, pageFiles, pageHash } from './page-files.ts'
import { pageHtml } from './page-html.ts'

type Answer = (exchange: Exchange) => Promise<Reply>

interface Opened {
  readonly hash: string
  readonly page: Answer
  readonly assets: ReadonlyMap<string, AssetAnswer>
}

/** The folder that the hash is, and what is in it. */
const HASHED = /^([0-9a-f]{12})\/(.+)$/

function openPage(): Opened {
  const files = pageFiles()
  const hash = pageHash()
  const assets = new Map([...files].map(([name, asset]) => [name, serveAsset(asset)]))
  return { hash, page: serveAsset(pageHtml(files, `${ASSETS}/${hash}`)), assets }
}

/**
 * GET /console and what is below it: the page, whose own script reads the rest of the path, and what it is made of. No
 * key is asked for, since nothing of that is secret. Files are looked for when somebody opens the console first.
 */
export function consolePage(): EdgeRoute[] {
  let opened: Opened | null = null
  const open = () => {
    opened ??= openPage()
    return opened
  }
  const page = (exchange: Exchange) => open().page(exchange)
  return [
    get('/console', page),
    get(`${ASSETS}/*`, (exchange) => {
      const { hash, assets } = open()
      const path = exchange.params[0] ?? ''
      const [, given, name = path] = HASHED.exec(path) ?? []
      const file = assets.get(name)
      if (file === undefined) throw new GatewayError('NOT_FOUND')
      if (given === hash) return file(exchange, IMMUTABLE)
      // A page of before an upgrade, or of another version behind the same balancer: what there is now, and not kept.
      return given === undefined ? file(exchange) : file(exchange, 'no-store')
    }),
    get('/console/*', page),
  ]
}

function get(path: string, answer: Answer): EdgeRoute {
  return {
    method: 'GET',
    path,
    async handle(exchange) {
      exchange.reply(await answer(exchange))
    },
  }
}
