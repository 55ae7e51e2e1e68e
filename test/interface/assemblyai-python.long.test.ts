import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import t from 'tap'
import { speak } from '../../src/sandbox/speak.ts'
import { startDemoProcess } from '../support/demo-route.ts'
import { assertStopsClean } from '../support/gateway.ts'
import { pythonClient } from '../support/python-client.ts'
import { tempFolder } from '../support/scratch.ts'

const HERTZ = 600

const assemblyai = await pythonClient('assemblyai')

t.test("Python's assemblyai, with 25 MB", { skip: assemblyai.skip, timeout: 180_000 }, async (t) => {
  const gateway = await startDemoProcess(t, { env: { LARKWAY_MEMORY_MIB: '8' } })
  const folder = await tempFolder(t)
  const [short, large] = ['hello lark', Array.from({ length: 340 }, (_, index) => `lark ${index}`).join(' ')]
  const files: string[] = []
  for (const text of [short, large]) {
    const path = join(folder, `${text.length}.wav`)
    await writeFile(path, speak(text, HERTZ, 1))
    files.push(path, text)
  }
  const said = await assemblyai.run('assemblyai-transcripts.py', [
    `${gateway.url}/assemblyai`,
    gateway.key,
    ...files,
  ])
  const subtitles = '1\n00:00:00,336'
  t.same(said, [
    { name: 'transcribed', status: 'completed', isRight: true, sentences: 1, paragraphs: 1, subtitles },
    { name: 'searched', matches: [['hello', 1, [0]]] },
    { name: 'large', status: 'completed', isRight: true },
    { name: 'listed', isRight: true },
    {
      name: 'deleted',
      status: 'completed',
      texts: ['Deleted by user.', 'Deleted by user.'],
      url: 'http://deleted_by_user',
    },
    { name: 'refused', isNamed: true },
  ])
  await assertStopsClean(t, gateway)
})
