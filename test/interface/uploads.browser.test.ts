import { readFile } from 'node:fs/promises'
import t from 'tap'
import { openBrowser } from '../support/browser.ts'
import { cuttingProxy } from '../support/cutting-proxy.ts'
import { serveHttp } from '../support/http-server.ts'
import { withoutServers } from '../support/servers.ts'
import { heardOf, MIB, noisyWav, uploadRoute } from '../support/uploads.ts'

const CLIENT = new URL('../../node_modules/tus-js-client/dist/tus.min.js', import.meta.url)

/** Runs in the page. */
async function uploadInPage([endpoint, token]: readonly [string, string]): Promise<number> {
  const { tus } = globalThis as unknown as { tus: typeof import('tus-js-client') }
  const file = await (await fetch('/audio')).blob()
  return new Promise((resolve, reject) => {
    let retries = 0
    new tus.Upload(file, {
      endpoint,
      headers: { authorization: `Bearer ${token}` },
      retryDelays: new Array<number>(20).fill(10),
      metadata: { filetype: file.type },
      onShouldRetry() {
        retries += 1
        return true
      },
      onSuccess: () => resolve(retries),
      onError: reject,
    }).start()
  })
}

t.test(
  'a page of another origin uploads by a token, over a connection that is cut',
  { skip: withoutServers, timeout: 60_000 },
  async (t) => {
    const { authorization, start } = await uploadRoute(t)
    const { url, port, heard } = await start()
    const bytes = noisyWav(8 * MIB)
    const script = await readFile(CLIENT)
    const site = await serveHttp(t, (request, response) => {
      if (request.url === '/audio') response.setHeader('content-type', 'audio/wav').end(bytes)
      else if (request.url === '/tus.js') response.setHeader('content-type', 'text/javascript').end(script)
      else response.setHeader('content-type', 'text/html').end('<script src="/tus.js"></script>')
    })
    let cuts = 3
    const proxy = await cuttingProxy(t, port, () => (cuts-- > 0 ? 2 * MIB : null))
    const made = await fetch(`${url}/v1/uploads/tokens`, {
      method: 'POST',
      headers: { ...authorization, 'content-type': 'application/json' },
      body: '{}',
    })
    const { token, upload_id } = (await made.json()) as { token: string; upload_id: string }
    const page = await (await openBrowser(t)).newPage()
    await page.goto(site)
    const retries = await page.evaluate(uploadInPage, [`${proxy.url}/v1/uploads`, token] as const)
    t.ok(retries > 0, `${retries} retries, ${proxy.cuts} cuts`)
    t.equal(await heard(upload_id), heardOf(bytes))
  },
)
