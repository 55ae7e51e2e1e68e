-- Settles money that a node held which died, by its records: see `CallLedger.recover`.
--
-- KEYS account spent reservations leases lost end_user
-- ARGV token charge_platform charge_spend charge_overage estimate_platform estimate_spend
-- Reply 1 | 0: whether this call settled it
--
-- A reservation, past its lease or not, becomes its charge and the estimates of calls under way, of which the purse
-- gives no more than was reserved. One that has expired is corrected: it was charged by guess. The estimates are in
-- `lost` then, to be recorded, and so is nothing where more was recorded before.

local account, spent, reservations, leases, lost, end_user = unpack(KEYS)
local money = { account = account, spent = spent, lost = lost }
local token = ARGV[1]
local charged_platform, charged_spend = tonumber(ARGV[2]), tonumber(ARGV[3])
local estimated_platform, estimated_spend = tonumber(ARGV[5]), tonumber(ARGV[6])

local function leave(purse, month, key_id, end_user_account, at_ms, is_needed)
  if estimated_spend == 0 and estimated_platform == 0 and not is_needed then
    redis.call('HDEL', lost, token)
    return
  end
  lose(money, token, {
    told = 0, recovered = 1, purse = purse, platform = estimated_platform, spend = estimated_spend, month = month,
    key_id = key_id, end_user = end_user_account, at_ms = at_ms,
  })
end

local function count_expired(count, platform)
  add(account, 'expired_count', count)
  add(account, 'expired', platform)
end

local record = redis.call('HGET', reservations, token)
if record then
  local claim, purse, platform, spend, month, key_id, more = string.match(record, MONEY_TAKEN)
  if claim ~= '0' then return 0 end
  redis.call('HDEL', reservations, token)
  redis.call('ZREM', leases, token)
  estimated_platform = math.min(estimated_platform, math.max(0, platform - charged_platform))
  charge(money, purse, tonumber(platform), tonumber(spend), month, key_id, charged_platform + estimated_platform,
    charged_spend + estimated_spend)
  add(account, 'overage', tonumber(ARGV[4]))
  local end_user_account = (more == '' or string.sub(more, 1, 1) == '=') and '-' or more
  if end_user_account ~= '-' then end_user_more(end_user, month, charged_spend + estimated_spend - spend) end
  if estimated_spend > 0 or estimated_platform > 0 then count_expired(1, estimated_platform) end
  leave(purse, month, key_id, end_user_account, now_ms, false)
  return 1
end

local told, recovered, purse, platform, spend, month, key_id, end_user_account, at_ms =
  string.match(redis.call('HGET', lost, token) or '', MONEY_LOST)
if recovered ~= '0' then return 0 end
local more_platform = charged_platform + estimated_platform - platform
local more_spend = charged_spend + estimated_spend - spend
-- What was given back may be spent by now: the rest is overage.
local paid = more_platform
if purse == 'credits' then paid = math.min(more_platform, math.max(0, amount(account, 'credits'))) end
if purse == 'none' then paid = 0 end
give(account, purse, -paid)
add(account, 'overage', more_platform - paid + ARGV[4])
spend_more(spent, month, key_id, more_spend)
book(account, more_spend)
if end_user_account ~= '-' then end_user_more(end_user, month, more_spend) end
local was = (tonumber(spend) > 0 or tonumber(platform) > 0) and 1 or 0
local is = (estimated_spend > 0 or estimated_platform > 0) and 1 or 0
count_expired(is - was, estimated_platform - platform)
leave(purse, month, key_id, end_user_account, at_ms, told == '1')
return 1
