import { request } from 'node:http'
import t from 'tap'
import { startLarkway } from '../support/larkway.ts'
import { MIB, uploadRoute } from '../support/uploads.ts'

const UPLOADS = 50
const BYTES = 32 * MIB
const ABOVE_MIB = 150

t.test(`${UPLOADS} uploads at once take little memory`, async (t) => {
  const { authorization, start } = await uploadRoute(t)
  const node = await start({}, startLarkway)
  const before = await node.peakRssMiB()
  const headers = { ...authorization, 'tus-resumable': '1.0.0', 'upload-length': String(BYTES) }
  const made = () => fetch(`${node.url}/v1/uploads`, { method: 'POST', headers })
  const paths = await Promise.all(
    Array.from({ length: UPLOADS }, async () => (await made()).headers.get('location')!),
  )
  const statuses = await Promise.all(paths.map((path) => send(node.url + path, authorization)))
  t.same(new Set(statuses), new Set([204]))
  const above = (await node.peakRssMiB()) - before
  t.ok(above <= ABOVE_MIB, `${Math.round(above)} MiB above what it takes idle`)
})

/** Sends a whole upload as fast as it is taken. @returns the status */
function send(url: string, authorization: Readonly<Record<string, string>>): Promise<number> {
  const chunk = Buffer.alloc(256 * 1024, 7)
  return new Promise((resolve, reject) => {
    const headers = {
      ...authorization,
      'tus-resumable': '1.0.0',
      'upload-offset': '0',
      'content-type': 'application/offset+octet-stream',
      'content-length': BYTES,
    }
    const sending = request(url, { method: 'PATCH', headers }, (response) => {
      response.resume()
      resolve(response.statusCode ?? 0)
    })
    sending.on('error', reject)
    let left = BYTES
    const more = () => {
      while (left > 0) {
        left -= chunk.length
        if (!sending.write(chunk)) return void sending.once('drain', more)
      }
      sending.end()
    }
    more()
  })
}
