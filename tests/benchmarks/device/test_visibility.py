"""Which cards a mask shows. Four cards; masks as people and schedulers write them."""

from __future__ import annotations

from benchmarks.device.visibility import Card, Visible, visible

CARDS = [Card(i, f"GPU-{i}a88f5e6-0000-0000-0000-00000000000{i}", "NVIDIA A100-SXM4-80GB") for i in range(4)]
ALIKE = [Card(i, f"GPU-5a88{i}000-0000", "NVIDIA A100-SXM4-80GB") for i in range(2)]
PARTS = tuple(
    Card(1, f"MIG-{i}{i}{i}{i}", "NVIDIA A100-SXM4-80GB MIG 3g.40gb", is_slice=True, alias=f"MIG-GPU-b/{i}/0")
    for i in (1, 2)
)
WITH_MIG = [Card(0, "GPU-a", "NVIDIA A100-SXM4-80GB"), Card(1, "GPU-b", "NVIDIA A100-SXM4-80GB", slices=PARTS)]
MIXED = [Card(0, "GPU-a", "NVIDIA GeForce RTX 3090"), Card(1, "GPU-b", "NVIDIA GeForce RTX 4090")]


def under(mask: str | None, cards: list[Card] = CARDS, **more: str) -> Visible:
    return visible(cards, {} if mask is None else {"CUDA_VISIBLE_DEVICES": mask, **more})


def indices(seen: Visible) -> list[int]:
    return [card.index for card in seen.cards]


def test_without_a_mask_every_card_is_visible() -> None:
    assert indices(under(None)) == [0, 1, 2, 3]


def test_a_mask_orders_the_cards_as_it_lists_them() -> None:
    assert indices(under("2,0")) == [2, 0]


def test_blanks_around_the_entries_do_not_matter() -> None:
    assert indices(under(" 0, 1 ")) == [0, 1]


def test_an_empty_mask_shows_no_card() -> None:
    assert indices(under("")) == []


def test_a_full_uuid_names_its_card() -> None:
    assert indices(under(f"{CARDS[3].uuid},{CARDS[1].uuid}")) == [3, 1]


def test_the_beginning_of_a_uuid_names_its_card() -> None:
    assert indices(under("GPU-2a88")) == [2]


def test_a_beginning_that_two_cards_share_names_neither() -> None:
    seen = under("GPU-5a88", ALIKE)
    assert seen.cards == ()
    assert "2 cards' UUIDs" in seen.notes[0]


def test_all_is_a_word_of_containers_and_names_no_card() -> None:
    seen = under("all")
    assert seen.unresolved == ("all",)
    assert "names no card" in seen.notes[0]


def test_what_follows_an_unknown_entry_is_hidden_and_named() -> None:
    seen = under("0,7,1")
    assert indices(seen) == [0]
    assert seen.unresolved == ("7", "1")
    assert "this machine has 4" in seen.notes[0]


def test_minus_one_ends_the_mask() -> None:
    assert indices(under("0,2,-1,1")) == [0, 2]  # the example of NVIDIA's programming guide


def test_a_card_named_twice_hides_all() -> None:
    seen = under("1,1")
    assert seen.cards == ()
    assert "twice" in seen.notes[0]


def test_a_slice_is_named_by_its_own_id() -> None:
    assert under("MIG-2222", WITH_MIG).cards == (PARTS[1],)


def test_a_slice_is_named_by_the_id_that_older_drivers_give() -> None:
    assert under("MIG-GPU-b/2/0", WITH_MIG).cards == (PARTS[1],)


def test_a_card_cut_into_slices_shows_its_first_slice() -> None:
    assert under("1", WITH_MIG).cards == (PARTS[0],)


def test_a_process_sees_one_slice_and_no_card_beside_it() -> None:
    seen = under(None, WITH_MIG)
    assert seen.cards == (PARTS[0],)
    assert "1 of 2 are hidden" in seen.notes[0]


def test_numbers_of_unlike_cards_are_not_certain() -> None:
    assert not under("0", MIXED).certain


def test_numbers_of_unlike_cards_are_certain_in_bus_order() -> None:
    assert under("0", MIXED, CUDA_DEVICE_ORDER="PCI_BUS_ID").certain


def test_uuids_of_unlike_cards_are_certain() -> None:
    assert under("GPU-b", MIXED).certain
