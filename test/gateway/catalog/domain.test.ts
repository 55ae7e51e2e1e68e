import t from 'tap'
import { audioDomain } from '../../../src/gateway/catalog/snapshot.ts'

const rows: readonly [string, string | null][] = [
  ['cdn.example.com', 'cdn.example.com'],
  ['CDN.Example.COM', 'cdn.example.com'],
  ['*.example.com', '*.example.com'],
  ['bücher.example', 'xn--bcher-kva.example'],
  ['*.bücher.example', '*.xn--bcher-kva.example'],
  ['localhost', null],
  ['*.com', null],
  ['*', null],
  ['*.*.example.com', null],
  ['a.*.example.com', null],
  ['https://example.com', null],
  ['example.com:443', null],
  ['example.com/audio', null],
  ['user@example.com', null],
  ['example.com.', null],
  ['-a.example.com', null],
  ['10.0.0.1', null],
  ['0x7f.1', null],
  ['2130706433', null],
  ['[::1]', null],
  ['', null],
  [`${'a'.repeat(64)}.example.com`, null],
  [`${'a.'.repeat(127)}example.com`, null],
]

for (const [text, domain] of rows) t.equal(audioDomain(text), domain, JSON.stringify(text))
