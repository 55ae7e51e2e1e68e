-- What an idempotency slot holds. Changes nothing.
--
-- KEYS slot
-- ARGV
-- Reply {'free'} | {'running'} | {'burned'} | {'stored', fingerprint, result}
--
-- A slot whose lease ran out counts as burned before anybody has written that down.

local held = redis.call('HMGET', KEYS[1], 'state', 'lease_until_ms', 'fingerprint', 'result')
local state = held[1]
if not state then return { 'free' } end
if state == 'stored' then return { 'stored', held[3], held[4] } end
if state == 'running' then
  local time = redis.call('TIME')
  if tonumber(held[2]) <= time[1] * 1000 + math.floor(time[2] / 1000) then return { 'burned' } end
end
return { state }
