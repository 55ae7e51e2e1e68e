import t, { type Test } from 'tap'
import { cuttingProxy } from '../support/cutting-proxy.ts'
import { Dice } from '../support/dice.ts'
import { startLarkway } from '../support/larkway.ts'
import { openBucket } from '../support/s3-server.ts'
import { tempFolder } from '../support/scratch.ts'
import { withoutServers } from '../support/servers.ts'
import { sharedS3 } from '../support/shared-s3.ts'
import { heardOf, MIB, noisyWav, tusUpload, uploadRoute } from '../support/uploads.ts'

const BYTES = 96 * MIB
const KILLS = 4

for (const store of ['folder', 's3'] as const)
  t.test(
    `nodes that are killed while an upload comes lose no byte that was told: ${store}`,
    { skip: store === 's3' ? withoutServers : false, timeout: 120_000 },
    async (t: Test) => {
      const { env } = store === 's3' ? await openBucket(t, await sharedS3(t)) : { env: {} }
      const { authorization, start } = await uploadRoute(t)
      const dataFolder = await tempFolder(t)
      const dice = new Dice(3)
      let node = await start({ dataFolder, env }, startLarkway)
      const proxy = await cuttingProxy(t, node.port, () => null)
      const bytes = noisyWav(BYTES)
      let path = ''
      let lastTold = 0
      let kills = 0
      let busy: Promise<void> | null = null
      const lost: string[] = []

      const told = async () => {
        const response = await fetch(proxy.url + path, { method: 'HEAD', headers: authorization })
        return Number(response.headers.get('upload-offset'))
      }
      /** Kills the node a moment after a piece of the upload was told to be there. */
      const kill = async () => {
        lastTold = Math.max(lastTold, await told())
        await node.signal('SIGKILL')
        node = await start({ dataFolder, env }, startLarkway)
        proxy.port = node.port
        const after = await told()
        if (after < lastTold) lost.push(`${lastTold - after} bytes`)
        lastTold = after
        kills += 1
      }
      const id = await tusUpload(proxy.url, authorization, bytes, {
        chunkSize: 12 * MIB,
        retryDelays: new Array<number>(200).fill(20),
        onChunkComplete(_, accepted) {
          if (accepted < lastTold) lost.push(`${lastTold - accepted} bytes of a chunk`)
          lastTold = Math.max(lastTold, accepted)
        },
        onProgress(sent) {
          if (busy !== null || kills === KILLS || sent < (BYTES / (KILLS + 1)) * (kills + dice.roll())) return
          busy = kill().finally(() => {
            busy = null
          })
        },
        onAfterResponse(request) {
          const url = new URL(request.getURL())
          if (url.pathname !== '/v1/uploads') path = url.pathname
        },
      })
      await busy
      t.equal(kills, KILLS)
      t.same(lost, [])
      t.equal(await node.heard(id), heardOf(bytes))
    },
  )
