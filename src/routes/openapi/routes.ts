import { GatewayError } from '../../errors.ts'
import type { Exchange } from '../../inbound/exchange.ts'
import type { EdgeRoute } from '../../inbound/server.ts'
import { serveAsset } from '../assets.ts'

type Served = Pick<EdgeRoute, 'method' | 'path'>

/**
 * GET /openapi.json, and /docs, a page that shows it. No key is asked for. The document is made when it is first asked
 * for, out of modules that are loaded only then.
 *
 * @param others every other route of the node: those are what is documented, together with these
 */
export function documentation(others: readonly Served[]): EdgeRoute[] {
  const document = serveAsset({ type: 'application/json', load: () => documentOf([...others, ...own]) })
  const page = lazily(async () => serveAsset((await import('./page.ts')).PAGE_ASSET))
  const files = lazily(async () => {
    const { PAGE_FILES } = await import('./page.ts')
    return new Map(Object.entries(PAGE_FILES).map(([name, asset]) => [name, serveAsset(asset)]))
  })
  const own: EdgeRoute[] = [
    get('/openapi.json', document),
    get('/docs', async (exchange) => (await page())(exchange)),
    get('/docs/:file', async (exchange) => {
      const file = (await files()).get(exchange.params[0] ?? '')
      if (file === undefined) throw new GatewayError('NOT_FOUND')
      return file(exchange)
    }),
  ]
  return own
}

function get(path: string, answer: ReturnType<typeof serveAsset>): EdgeRoute {
  return {
    method: 'GET',
    path,
    async handle(exchange: Exchange) {
      exchange.reply(await answer(exchange))
    },
  }
}

async function documentOf(served: readonly Served[]): Promise<string> {
  const { openApiDocument } = await import('./document.ts')
  return JSON.stringify(await openApiDocument(served))
}

function lazily<Value>(make: () => Promise<Value>): () => Promise<Value> {
  let made: Promise<Value> | null = null
  return () => {
    made ??= make()
    return made
  }
}
