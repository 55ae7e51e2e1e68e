import t from 'tap'
import { fuzzEdge } from '../support/edge-fuzz.ts'

t.test('4,000 mutated requests', (t) => fuzzEdge(t, 4_000))
