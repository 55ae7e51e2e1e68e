import { execFileSync } from 'node:child_process'
import t from 'tap'
import { PLAIN_HEARING } from '../../../src/console/page/views/playground/options.ts'
import {
  jsString,
  shellWord,
  transcriptionSnippets,
} from '../../../src/console/page/views/playground/snippets.ts'

// The programs themselves are run in the second tier.

t.test('no snippet holds a key', async (t) => {
  const job = transcriptionSnippets('https://gateway.example.com', 'a.wav', { ...PLAIN_HEARING, asJob: true })
  for (const text of Object.values(job)) t.match(text, 'LARKWAY_API_KEY')
  t.equal(
    job.curl,
    'curl -sS --fail-with-body https://gateway.example.com/v1/transcription/jobs \\\n' +
      '  -H "Authorization: Bearer $LARKWAY_API_KEY" \\\n  -F file=@a.wav',
  )
})

t.test('a text stays the text that it is', async (t) => {
  const hostile = `'; touch pwned; echo "$(touch pwned)" \\ \`x\` \${process.exit(1)}\n\u2028</script>`
  t.equal(execFileSync('sh', ['-c', `printf %s ${shellWord(hostile)}`]).toString(), hostile)
  const { text } = (await import(
    `data:text/javascript,export const text = ${encodeURIComponent(jsString(hostile))}`
  )) as { text: string }
  t.equal(text, hostile)
})
