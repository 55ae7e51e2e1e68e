import { GatewayError } from '../../errors.ts'
import type { Exchange, Reply } from '../../inbound/exchange.ts'
import type { EdgeRoute } from '../../inbound/server.ts'
import { serveAsset } from '../assets.ts'
import { ASSETS, pageFiles } from './page-files.ts'
import { pageHtml } from './page-html.ts'

type Answer = (exchange: Exchange) => Promise<Reply>

/**
 * GET /console and what is below it: the page, whose own script reads the rest of the path, and what it is made of. No
 * key is asked for, since nothing of that is secret. Files are looked for when somebody opens the console first.
 */
export function consolePage(): EdgeRoute[] {
  let opened: { readonly page: Answer; readonly assets: ReadonlyMap<string, Answer> } | null = null
  const open = () => {
    if (opened !== null) return opened
    const files = pageFiles()
    const assets = new Map([...files].map(([name, asset]) => [name, serveAsset(asset)]))
    opened = { page: serveAsset(pageHtml(files)), assets }
    return opened
  }
  const page = (exchange: Exchange) => open().page(exchange)
  return [
    get('/console', page),
    get(`${ASSETS}/*`, (exchange) => {
      const file = open().assets.get(exchange.params[0] ?? '')
      if (file === undefined) throw new GatewayError('NOT_FOUND')
      return file(exchange)
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
