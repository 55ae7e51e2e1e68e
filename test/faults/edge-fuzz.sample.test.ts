import t from 'tap'
import { fuzzEdge } from './edge-fuzz.ts'

t.test('2,000 mutated requests', (t) => fuzzEdge(t, 2_000))
