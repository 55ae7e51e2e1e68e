-- Ends a call: its slot takes its last state, its reservation becomes the real amount.
--
-- KEYS slot account spent reservations leases charged end_user
-- ARGV token end result ttl_ms charges platform spend claim
-- Reply {slot_held, charged, end_user_spent}, the first two 1 | 0: whether the slot ended as told, whether the
-- reservation became the charge; then what its end user has spent in that month, empty where nothing is counted
--
-- `end` is stored, released or burned; empty: there is no slot. `charges` = '0': nothing was set aside. What the token
-- does not hold is left alone, so doing it twice is doing it once: a stored or burned slot keeps the token that ended
-- it, and a settled reservation is gone. The purse gives no more than was reserved; what a call cost above that is
-- overage. A reservation past its lease is left to those who charge such.
--
-- `claim` = '0': the token is used once. Else the reservation ends only when this claim holds it; what it was charged is
-- remembered in `charged`, token by token with the moment until when.

local FORGOTTEN_AT_ONCE = 20

local slot, account, spent, reservations, leases, charged, end_user = unpack(KEYS)
local token, slot_end = ARGV[1], ARGV[2]
local platform_charge, spend_charge, claim = tonumber(ARGV[6]), tonumber(ARGV[7]), ARGV[8]

local function remember_charge()
  local past = redis.call('ZRANGEBYSCORE', charged, '-inf', digits(now_ms), 'LIMIT', 0, FORGOTTEN_AT_ONCE)
  if #past > 0 then redis.call('ZREM', charged, unpack(past)) end
  redis.call('ZADD', charged, digits(now_ms + CHARGED_MS), token)
  redis.call('PEXPIRE', charged, CHARGED_MS)
end

local end_user_spent = ''

local function settle()
  local record = redis.call('HGET', reservations, token)
  if not record or string.match(record, '^%d+') ~= claim then return 0 end
  if tonumber(redis.call('ZSCORE', leases, token) or 0) <= now_ms then return 0 end
  local _, purse, platform, spend, month, key_id, end_user_account = string.match(record, MONEY_TAKEN)
  redis.call('HDEL', reservations, token)
  redis.call('ZREM', leases, token)
  charge({ account = account, spent = spent }, purse, tonumber(platform), tonumber(spend), month, key_id,
    platform_charge, spend_charge)
  if end_user_account ~= '' then end_user_spent = end_user_more(end_user, month, spend_charge - spend) end
  if claim ~= '0' and (platform_charge > 0 or spend_charge > 0) then remember_charge() end
  return 1
end

local function end_slot()
  if slot_end == '' then return 0 end
  local taken = redis.call('HMGET', slot, 'state', 'token', 'lease_until_ms')
  local state = taken[1]
  if not state then return slot_end == 'released' and 1 or 0 end
  if taken[2] ~= token then return 0 end
  if state ~= 'running' then return state == slot_end and 1 or 0 end
  if tonumber(taken[3]) <= now_ms then
    redis.call('HSET', slot, 'state', 'burned', 'token', '')
    return 0
  end
  if slot_end == 'released' then
    redis.call('DEL', slot)
  else
    redis.call('HSET', slot, 'state', slot_end)
    redis.call('HDEL', slot, 'lease_until_ms')
    if slot_end == 'stored' then redis.call('HSET', slot, 'result', ARGV[3]) end
    redis.call('PEXPIRE', slot, ARGV[4])
  end
  return 1
end

local is_charged = ARGV[5] == '1' and settle() or 0
return { end_slot(), is_charged, end_user_spent }
